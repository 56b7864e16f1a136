#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/plots/curves.h"
#include "lockstep/plots/frame.h"
#include "lockstep/plots/text.h"

namespace lockstep::plots {
namespace {

using results::PhaseTimes;

/// The axes of a chart of curves.
struct CurveAxes {
  Scale x, y;
  std::string x_title, y_title;
  /// A value of x in words: "8 ranks".
  std::function<std::string(double)> at;
  /// Behind a value of y.
  std::string unit;
  /// Value over x of perfect scaling; 0: no line of it is drawn.
  double perfect = 0;
  /// Whether values have intervals at all.
  bool measured = true;
  /// x does not concern a curve of one point: it is a level line.
  bool level = false;
};

struct ValueRange {
  double low;
  double high;
};

/// An axis reaches at most this far beyond its points for their intervals: one of two launches may be a
/// hundred times as wide as all points are apart, and would flatten them.
constexpr double kMostBeyondPoints = 1.25;

/// Smallest and largest value of the curves, with their intervals where these are not far beyond.
ValueRange range_of(const std::vector<Curve>& curves) {
  ValueRange points{curves[0].points[0].value, curves[0].points[0].value};
  ValueRange intervals = points;
  for (const Curve& curve : curves) {
    for (const auto& [x, value, interval] : curve.points) {
      points = {std::min(points.low, value), std::max(points.high, value)};
      if (!interval) continue;
      intervals = {std::min(intervals.low, interval->first), std::max(intervals.high, interval->second)};
    }
    for (const results::Forecast& forecast : curve.beyond)
      points = {std::min(points.low, forecast.low), std::max(points.high, forecast.high)};
  }
  return {std::min(points.low, std::max(intervals.low, points.low / kMostBeyondPoints)),
          std::max(points.high, std::min(intervals.high, points.high * kMostBeyondPoints))};
}

/// The x of every point.
std::vector<double> xs_of(const std::vector<Curve>& curves) {
  std::vector<double> xs;
  for (const Curve& curve : curves) {
    for (const CurvePoint& point : curve.points) xs.push_back(point.x);
    for (const results::Forecast& forecast : curve.beyond) xs.push_back(forecast.ranks);
  }
  return xs;
}

/// Pixels between two whiskers that stand side by side, as many as one is wide.
constexpr double kApart = 9;

/// Curves that stand side by side, so that none lies on another: those with whiskers, or all at a single x.
std::vector<size_t> crowd_of(const std::vector<Curve>& curves) {
  const std::vector<double> xs = xs_of(curves);
  const bool one_place = std::ranges::min(xs) == std::ranges::max(xs);
  std::vector<size_t> crowd;
  for (size_t i = 0; i < curves.size(); ++i) {
    const auto has_whisker = [](const CurvePoint& point) { return point.interval.has_value(); };
    if (one_place || std::ranges::any_of(curves[i].points, has_whisker)) crowd.push_back(i);
  }
  return crowd;
}

/// Draws the curves: published below, own above. Curves with whiskers stand side by side, so that none lies
/// on another. Each marker has its numbers in a tooltip: "ddp, 8 ranks: 412 images/s (405 to 420)". Returns
/// whether a whisker reaches beyond the axis.
bool draw_curves(Canvas& canvas, const XyFrame& frame, const std::vector<Curve>& curves,
                 const std::vector<LineStyle>& styles, const CurveAxes& axes) {
  const std::vector<double> xs = xs_of(curves);
  const double places = static_cast<double>(std::set(xs.begin(), xs.end()).size());
  const std::vector<size_t> crowd = crowd_of(curves);
  const double apart = std::min(kApart, 0.4 * frame.plot().width / places / (1.0 + crowd.size()));
  const auto place = [&](size_t i, const CurvePoint& point) {
    Point at = frame.at(point.x, point.value);
    const auto found = std::ranges::find(crowd, i);
    if (found != crowd.end()) at.x += apart * ((found - crowd.begin()) - 0.5 * (crowd.size() - 1.0));
    return at;
  };
  const auto is_level = [&](const Curve& curve) { return axes.level && curve.points.size() == 1; };
  for (size_t i = curves.size(); i-- > 0;) {
    std::vector<Point> points;
    for (const CurvePoint& point : curves[i].points) points.push_back(place(i, point));
    if (is_level(curves[i])) points = {{frame.plot().x, points[0].y}, {frame.plot().right(), points[0].y}};
    if (!curves[i].beyond.empty()) draw_beyond(canvas, frame, curves[i], styles[i], points.back());
    canvas.polyline(points, styles[i]);
  }
  bool goes_on = false;
  for (size_t i = curves.size(); i-- > 0;) {
    for (const CurvePoint& point : curves[i].points) {
      const Point at = place(i, point);
      std::string words = curves[i].label + (is_level(curves[i]) ? "" : ", " + axes.at(point.x));
      words += fmt::format(": {}{}", number_text(point.value), axes.unit);
      if (point.interval) {
        const auto [low, high] = *point.interval;
        words += fmt::format(" ({} to {})", number_text(low), number_text(high));
        canvas.whisker(at.x, frame.at(0, low).y, frame.at(0, high).y, styles[i].colour, !frame.shows(low),
                       !frame.shows(high));
        goes_on = goes_on || !frame.shows(low) || !frame.shows(high);
      }
      canvas.marker(at, styles[i], 4.5, words);
    }
  }
  return goes_on;
}

/// Largest ratio of rates on a linear axis; beyond it the small ones would vanish.
constexpr double kMostLinearRates = 24;

/// A note on whiskers: how to read them, or how to get them.
std::string interval_note(bool goes_on, const std::vector<Curve>& curves) {
  bool some = false, all = true;
  for (const Curve& curve : curves) {
    if (curve.kind == Curve::Kind::kPublished) continue;
    for (const CurvePoint& point : curve.points) (point.interval ? some : all) = point.interval.has_value();
  }
  if (some) {
    return fmt::format("Whiskers are 95 % intervals; where there is none, too little was measured for one.{}",
                       goes_on ? " Those that end in an arrow reach beyond the axis." : "");
  }
  return all ? "" : "No run has an interval: more steps, or several launches, give one.";
}

/// Whether some run of the sources has a property.
bool any_run(const Sources& sources, bool (*has)(const results::Run&)) {
  for (const std::vector<NamedRecord>* records : {&sources.records, &sources.published}) {
    for (const NamedRecord& named : *records) {
      if (std::ranges::any_of(named.record.runs, has)) return true;
    }
  }
  return false;
}

/// Adds the drawing, the last point of each curve to the description, and a note on intervals.
Chart curves_chart(Chart chart, const ChartForm& form, const std::vector<Curve>& curves, CurveAxes axes) {
  const LineStyle ideal{.colour = Colour::kAxis, .marker = Marker::kNone, .dash = "1.5 3", .width = 1.75};
  const std::vector<LineStyle> styles = styles_of(curves);
  std::vector<LegendEntry> legend;
  bool predicted = false;
  for (size_t i = 0; i < curves.size(); ++i) {
    const CurvePoint& last = curves[i].points.back();
    legend.push_back({curves[i].label, styles[i]});
    chart.description +=
        fmt::format(" {}: {}{} at {}.", curves[i].label, number_text(last.value), axes.unit, axes.at(last.x));
    if (curves[i].beyond.empty()) continue;
    const results::Forecast& end = curves[i].beyond.back();
    chart.description +=
        fmt::format(" Predicted: {}{} at {}.", number_text(end.speedup), axes.unit, axes.at(end.ranks));
    predicted = true;
  }
  if (axes.perfect > 0) legend.push_back({"ideal", ideal});
  if (predicted) {
    legend.push_back(
        {"predicted", {.colour = Colour::kMuted, .dash = kPredictedDash}, LegendEntry::Sample::kBand});
    chart.notes.emplace_back(
        "Dotted, in a 90 % band: predicted by `lockstep predict` from the last measured point, for hosts and "
        "links like those that were measured.");
  }
  Canvas canvas(form.id);
  const XyFrame frame(canvas, form,
                      {.x_title = axes.x_title,
                       .y_title = axes.y_title,
                       .legend = std::move(legend),
                       .x_margin = 14 + kApart / 2 * static_cast<double>(crowd_of(curves).size())},
                      axes.x, axes.y);
  if (axes.perfect > 0) {
    const auto [least, most] = std::ranges::minmax(xs_of(curves));
    canvas.polyline({frame.at(least, least * axes.perfect), frame.at(most, most * axes.perfect)}, ideal);
  }
  const bool goes_on = draw_curves(canvas, frame, curves, styles, axes);
  const std::string note = axes.measured ? interval_note(goes_on, curves) : "";
  if (!note.empty()) chart.notes.push_back(note);
  return drawn(std::move(chart), canvas, form, frame.bottom());
}

std::string in_ranks(double x) {
  return counted(static_cast<int64_t>(x), "rank");
}

/// Axes of rates over `x`. The y axis is logarithmic if the largest is many times the smallest.
CurveAxes rate_axes(const Sources& sources, const std::vector<Curve>& curves, Scale x, std::string x_title,
                    std::function<std::string(double)> at) {
  const auto [low, high] = range_of(curves);
  const bool logarithmic = high / low > kMostLinearRates;
  const std::string unit = results::unit_of(sources);
  return {.x = std::move(x),
          .y = logarithmic ? Scale::log10(low, high) : Scale::linear(0, high, 7),
          .x_title = std::move(x_title),
          .y_title = fmt::format("{}s per second{}", unit, logarithmic ? " (log scale)" : ""),
          .at = std::move(at),
          .unit = fmt::format(" {}s/s", unit)};
}

std::optional<double> as_percent(std::optional<double> share) {
  return share ? std::optional(100 * *share) : std::nullopt;
}

using EpochColumn = std::pair<const char*, std::optional<double> (*)(const results::EpochRecord&)>;

/// Columns of the epochs of every training, a curve each.
Chart epochs_chart(Chart chart, const Sources& sources, const ChartForm& form, std::string_view y_title,
                   std::string_view unit, std::initializer_list<EpochColumn> columns) {
  std::vector<Curve> curves;
  for (const NamedRecord& named : sources.records) {
    for (const auto& [label, value_of] : columns) {
      if (!named.record.training) continue;
      Curve curve{.label = label};
      if (sources.records.size() > 1) curve.label += ", " + named.name;
      for (const results::EpochRecord& epoch : named.record.training->epochs) {
        const std::optional<double> value = value_of(epoch);
        if (value && std::isfinite(*value))
          curve.points.push_back({static_cast<double>(epoch.epoch), *value, {}});
      }
      if (!curve.points.empty()) curves.push_back(std::move(curve));
    }
  }
  if (curves.empty()) {
    return missing_chart(chart.title, "no training says it",
                         "Files of `lockstep train --json FILE` do; accuracy needs labels.");
  }
  curves = most_telling(std::move(curves), chart.notes);
  const auto [low, high] = range_of(curves);
  const std::vector<double> epochs = xs_of(curves);
  return curves_chart(
      std::move(chart), form, curves,
      {.x = Scale::linear_exactly(std::ranges::min(epochs), std::ranges::max(epochs), form.ticks()),
       .y = Scale::linear(low, high, 7),
       .x_title = "epoch",
       .y_title = std::string(y_title),
       .at = [](double x) { return fmt::format("epoch {:.0f}", x); },
       .unit = std::string(unit),
       .measured = false});
}

constexpr size_t kMostBars = 16;
constexpr double kPhasesBar = 28;
constexpr double kMemoryBar = 20;

/// A damaged file may have a breakdown whose step took no time.
bool has_phases(const LabelledRun& run) {
  return run.run->breakdown && positive(run.run->breakdown->mean.step_s);
}

/// Draws the phases of one step from left to right, with their shares in the boxes that are wide enough.
void draw_bar(Canvas& canvas, const RowFrame& frame, const Box& row, const PhaseTimes& mean, double unit) {
  double begin_s = 0;
  for (const PhaseLook& look : phase_looks()) {
    const double seconds = mean.*look.seconds;
    if (!positive(seconds)) continue;
    const double left = frame.x(begin_s * unit), right = frame.x((begin_s + seconds) * unit);
    begin_s += seconds;
    // A gap of less than a pixel between two boxes.
    const Box box{left, row.y, std::max(0.75, right - left - 0.75), row.height};
    const std::string share = share_text(seconds / mean.step_s);
    draw_phase(canvas, box, look,
               fmt::format("{}: {}, {} of the step", look.name, time_text(seconds), share));
    const double needed = text_width(share, kSmallTextSize) + 6;
    if (box.width < needed) continue;
    const bool hatched = look.sample != LegendEntry::Sample::kSwatch;
    // A plain ground: stripes would make the number hard to read.
    if (hatched)
      canvas.rect({(left + right - needed) / 2, row.y + 6, needed, row.height - 12}, look.fill, 1, 2);
    canvas.text({(left + right) / 2, row.y + row.height / 2 + 4}, share,
                {.colour = look.text, .anchor = Anchor::kMiddle, .size = kSmallTextSize});
  }
}

/// " ddp, 2 ranks: a step of 1.20 s, forward 30 %, ...", for screen readers.
std::string in_words(const LabelledRun& run) {
  const PhaseTimes& mean = run.run->breakdown->mean;
  std::string text = fmt::format(" {}: a step of {}", with_ranks(run), time_text(mean.step_s));
  for (const PhaseLook* look : phases_in({&mean})) {
    text += fmt::format(", {} {}", look->name, share_text(mean.*look->seconds / mean.step_s));
  }
  return text + ".";
}

/// The runs network by network.
std::vector<LabelledRun> grouped(const std::vector<LabelledRun>& runs) {
  std::vector<LabelledRun> all;
  for (const auto& network : by_network(runs)) all.insert(all.end(), network.begin(), network.end());
  return all;
}

/// A row for each run. With `name_networks` a row has the name of its network above it, not in it.
std::vector<RowFrame::Row> rows_of(const std::vector<LabelledRun>& runs, double height, bool name_networks) {
  std::vector<RowFrame::Row> rows;
  for (const LabelledRun& run : runs) {
    rows.push_back({name_networks ? with_ranks_only(run) : with_ranks(run), height,
                    name_networks ? run.run->model : ""});
  }
  return rows;
}

/// Seconds of the longest step. Phases of a damaged file may add up to more than their step.
double longest_of(const std::vector<LabelledRun>& runs) {
  double longest_s = 0;
  for (const LabelledRun& run : runs) {
    const PhaseTimes& mean = run.run->breakdown->mean;
    double total_s = 0;
    for (const PhaseLook* look : phases_in({&mean})) total_s += mean.*look->seconds;
    longest_s = std::max({longest_s, total_s, mean.step_s});
  }
  return longest_s;
}

}  // namespace

Chart size_chart(Chart chart, const ChartForm& form, const std::vector<Curve>& curves,
                 const std::string& y_title, const std::string& unit) {
  const auto [least, most] = std::ranges::minmax(xs_of(curves));
  const auto [low, high] = range_of(curves);
  return curves_chart(std::move(chart), form, curves,
                      {.x = Scale::bytes(least, most),
                       .y = Scale::log10(low, high),
                       .x_title = "size (log scale)",
                       .y_title = y_title + " (log scale)",
                       .at = [](double bytes) { return format_bytes(static_cast<int64_t>(bytes)); },
                       .unit = unit,
                       .measured = false});
}

Chart loss_chart(const Sources& sources, const ChartForm& form) {
  return epochs_chart({.title = "Loss of the training", .description = "Mean loss by epoch."}, sources, form,
                      "loss", "",
                      {{"training", [](const auto& epoch) { return std::optional(epoch.loss); }},
                       {"evaluation", [](const auto& epoch) { return epoch.evaluation_loss; }}});
}

Chart accuracy_chart(const Sources& sources, const ChartForm& form) {
  return epochs_chart(
      {.title = "Accuracy of the training", .description = "Share of samples recognized by epoch."}, sources,
      form, "recognized, per cent", " %",
      {{"training", [](const auto& epoch) { return as_percent(epoch.training_accuracy); }},
       {"evaluation", [](const auto& epoch) { return as_percent(epoch.evaluation_accuracy); }}});
}

Chart speedup_chart(const Sources& sources, const ChartForm& form) {
  Chart chart{.title = "Speed-up against ranks"};
  const std::vector<Curve> curves = most_telling(speedup_curves(sources), chart.notes);
  if (curves.empty()) {
    return missing_chart(
        chart.title, "no run has a speed-up: that needs the rate of one rank without a strategy",
        "Measure with `lockstep bench --ranks 1,2,4`, which adds that control run by itself; to a recording "
        "`lockstep import --alone` adds it.");
  }
  const std::map<int, std::string> baselines = baselines_of(sources);
  const bool alike = baselines.size() == 1;
  const std::string baseline = alike ? baselines.begin()->second : "the baseline";
  chart.description = fmt::format("How many times faster than {} the job runs, on log2 axes{}.", baseline,
                                  alike ? ", with the line of a perfect speed-up" : "");
  chart.notes.push_back(fmt::format("Speed-up is relative to {}, alone on the machine.", baseline));
  if (any_run(sources, [](const results::Run& run) { return run.stated_speedup.has_value(); }))
    chart.notes.push_back("Published speed-ups are as stated; the tables have those of the rates, too.");
  // The axis must hold the line of perfect scaling, too.
  const double perfect = alike ? 1.0 / baselines.begin()->first : 0;
  const auto [least, most] = std::ranges::minmax(xs_of(curves));
  const auto [low, high] = range_of(curves);
  return curves_chart(
      std::move(chart), form, curves,
      {.x = Scale::log_at(xs_of(curves)),
       .y = Scale::log2(alike ? std::min(low, least * perfect) : low, std::max(high, most * perfect)),
       .x_title = "ranks (log scale)",
       .y_title = fmt::format("speed-up, times {} (log scale)", perfect == 1 ? "one rank" : baseline),
       .at = in_ranks,
       .unit = " times",
       .perfect = perfect});
}

Chart throughput_chart(const Sources& sources, const ChartForm& form) {
  Chart chart{.title = "Throughput against ranks"};
  const std::vector<Curve> curves = most_telling(throughput_curves(sources), chart.notes);
  if (curves.empty()) {
    return missing_chart(chart.title, "no run has a rate", "Measure with `lockstep bench --json FILE`.");
  }
  chart.description = "Rate of the whole job by number of ranks.";
  const CurveAxes axes =
      rate_axes(sources, curves, Scale::log_at(xs_of(curves)), "ranks (log scale)", in_ranks);
  return curves_chart(std::move(chart), form, curves, axes);
}

Chart setting_chart(const Sources& sources, const ChartForm& form) {
  const std::optional<SettingCurves> found = setting_curves(sources);
  if (!found) {
    return missing_chart("Throughput against a setting", "no setting has three values or more",
                         "Measure a sweep over one, as `lockstep bench --bucket-mb 1,5,25` does.");
  }
  const std::string name = found->setting->name, unit = found->setting->prose.unit;
  Chart chart{.title = "Throughput against " + name};
  const std::vector<Curve> curves = most_telling(found->curves, chart.notes);
  chart.description = fmt::format("Rate of the whole job by {}.", name);
  const auto [least, most] = std::ranges::minmax(xs_of(curves));
  const bool logarithmic = most >= 10 * least;
  CurveAxes axes = rate_axes(
      sources, curves,
      logarithmic ? Scale::log_at(xs_of(curves)) : Scale::linear_exactly(least, most, form.ticks()),
      fmt::format("{}{}{}", name, unit.empty() ? "" : " in" + unit, logarithmic ? " (log scale)" : ""),
      [=](double x) { return fmt::format("{} {:g}{}", name, x, unit); });
  axes.level = found->setting->has(results::Setting::kOfCommunication);
  return curves_chart(std::move(chart), form, curves, axes);
}

Chart phases_chart(const Sources& sources, const ChartForm& form) {
  Chart chart{.title = "Where the time of a step goes"};
  std::vector<LabelledRun> runs = labelled_runs(sources);
  std::erase_if(runs, [](const LabelledRun& run) { return !has_phases(run); });
  if (runs.empty()) {
    return missing_chart(chart.title, "no run has a breakdown",
                         "Measure it with `lockstep bench --breakdown --json FILE`.");
  }
  runs = most_telling(grouped(runs), kMostBars, chart.notes);
  std::vector<const PhaseTimes*> means;
  for (const LabelledRun& run : runs) means.push_back(&run.run->breakdown->mean);
  std::vector<LegendEntry> legend;
  for (const PhaseLook* look : phases_in(means)) legend.push_back(legend_entry(*look));

  Canvas canvas(form.id);
  chart.description = "The phases of a step as parts of a bar for each run.";
  double bottom = 0;
  size_t described = 0;
  for (const auto& network : by_network(runs)) {
    const double longest_s = longest_of(network);
    const TimeUnit unit = time_unit(longest_s);
    const RowFrame frame(canvas, form,
                         {.x_title = fmt::format("mean step in {}, over ranks", unit.name),
                          .legend = std::exchange(legend, {}),
                          .rows = rows_of(network, kPhasesBar, network.size() < runs.size()),
                          .right = 12,
                          .top = bottom},
                         Scale::linear(0, longest_s * unit.per_second, form.ticks()));
    for (size_t i = 0; i < network.size(); ++i) {
      draw_bar(canvas, frame, frame.row(i), network[i].run->breakdown->mean, unit.per_second);
      if (described++ < 6) chart.description += in_words(network[i]);
    }
    bottom = frame.bottom();
  }
  chart.notes.push_back("Hatched: communication that was not hidden behind the backward pass.");
  return drawn(std::move(chart), canvas, form, bottom);
}

Chart memory_chart(const Sources& sources, const ChartForm& form) {
  Chart chart{.title = "Peak memory of a rank"};
  std::vector<LabelledRun> runs = labelled_runs(sources);
  std::erase_if(runs, [](const LabelledRun& run) { return results::peak_memory_bytes(*run.run) <= 0; });
  if (runs.empty()) {
    return missing_chart(chart.title, "no run says how much memory its ranks used",
                         "Measure again with this version of `lockstep bench --json FILE`.");
  }
  runs = most_telling(grouped(runs), kMostBars, chart.notes);
  int64_t most = 0;
  for (const LabelledRun& run : runs) most = std::max(most, results::peak_memory_bytes(*run.run));
  const bool large = most >= kGiB;
  const auto unit = static_cast<double>(large ? kGiB : kMiB);

  RowFrame::Layout layout{.x_title = fmt::format("highest resident memory in {}", large ? "GiB" : "MiB"),
                          .right = 78};
  layout.rows = rows_of(runs, kMemoryBar, by_network(runs).size() > 1);
  Canvas canvas(form.id);
  const RowFrame frame(canvas, form, layout,
                       Scale::linear(0, static_cast<double>(most) / unit, form.ticks()));
  chart.description = "The largest peak of resident memory among the ranks of each run.";
  bool spread = false;
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto [least_bytes, most_bytes] = std::ranges::minmax(runs[i].run->resources->peak_memory_bytes);
    const Box& row = frame.row(i);
    const auto x = [&](int64_t bytes) {
      return frame.x(static_cast<double>(std::max<int64_t>(0, bytes)) / unit);
    };
    const std::string text = format_bytes(most_bytes);
    canvas.rect({row.x, row.y, x(most_bytes) - row.x, row.height}, Colour::kBlue, 1, 2,
                fmt::format("{}: {} to {}", with_ranks(runs[i]), format_bytes(least_bytes), text));
    // A mark within two pixels of the end would only thicken it.
    if (x(most_bytes) - x(least_bytes) > 2) {
      canvas.line({x(least_bytes), row.y - 2}, {x(least_bytes), row.bottom() + 2}, Colour::kInk, 2.5);
      spread = true;
    }
    canvas.text({x(most_bytes) + 8, row.y + row.height / 2 + 4.5}, text);
    if (i < 8) chart.description += fmt::format(" {}: {}.", with_ranks(runs[i]), text);
  }
  if (spread) chart.notes.push_back("The bar is the rank with the most, the mark the one with the least.");
  return drawn(std::move(chart), canvas, form, frame.bottom());
}

}  // namespace lockstep::plots
