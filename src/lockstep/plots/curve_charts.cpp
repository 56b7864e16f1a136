#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include <fmt/format.h>

#include "lockstep/plots/chart.h"
#include "lockstep/plots/curves.h"
#include "lockstep/plots/frame.h"
#include "lockstep/plots/text.h"

namespace lockstep::plots {
namespace {

std::string point_text(const Curve& curve, const CurvePoint& point, std::string_view unit) {
  std::string text =
      fmt::format("{}, {}: {}{}", curve.label, counted(static_cast<int64_t>(point.workers), "worker"),
                  number_text(point.value), unit);
  if (point.interval) {
    text +=
        fmt::format(" ({} to {})", number_text(point.interval->first), number_text(point.interval->second));
  }
  return text;
}

/// Whether every point of `below` is so close to one of `above` that their markers coincide.
bool hides(const Curve& above, const Curve& below) {
  constexpr double kClose = 0.005;
  return std::ranges::all_of(below.points, [&](const CurvePoint& point) {
    return std::ranges::any_of(above.points, [&](const CurvePoint& other) {
      return other.workers == point.workers && std::abs(other.value / point.value - 1) < kClose;
    });
  });
}

/// A style for each curve: own ones with filled markers, controls and published ones receding. Of several
/// networks each has a hue, which its controls share.
std::vector<LineStyle> styles_of(const std::vector<Curve>& curves) {
  std::vector<std::string> models;
  for (const Curve& curve : curves) {
    if (curve.kind == Curve::Kind::kPublished) continue;
    if (std::ranges::find(models, curve.model) == models.end()) models.push_back(curve.model);
  }
  const bool several = models.size() > 1;
  std::vector<LineStyle> styles;
  // Controls are counted by strategy, so that a control has one style in all charts; own curves are counted
  // by network if there are several.
  std::map<std::string, size_t> controls, own;
  size_t hues = several ? models.size() : 0;
  for (const Curve& curve : curves) {
    const auto hue = static_cast<size_t>(std::ranges::find(models, curve.model) - models.begin());
    if (curve.kind == Curve::Kind::kOwn) {
      const size_t index = several ? own[curve.model]++ : hues++;
      styles.push_back(several ? line_style(hue, index, index) : line_style(index, index, index / kHueCount));
      continue;
    }
    const bool control = curve.kind == Curve::Kind::kControl;
    LineStyle& style = styles.emplace_back(control ? line_style(hue, 0, 1 + controls[curve.strategy]++)
                                                   : line_style(hues, hues, 0));
    style.hollow = true;
    style.width = 1.75;
    if (control) {
      style.marker = curve.strategy == results::kSingle ? Marker::kCross : Marker::kPlus;
      if (!several) style.colour = Colour::kMuted;
    } else {
      // Dotted as long as hues and markers differ, then long dashes.
      style.dash = hues / kHueCount % 2 == 0 ? "2 4" : "9 3 2 3";
      ++hues;
    }
  }
  return styles;
}

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
    for (const auto& [workers, value, interval] : curve.points) {
      points = {std::min(points.low, value), std::max(points.high, value)};
      if (!interval) continue;
      intervals = {std::min(intervals.low, interval->first), std::max(intervals.high, interval->second)};
    }
  }
  return {std::min(points.low, std::max(intervals.low, points.low / kMostBeyondPoints)),
          std::max(points.high, std::min(intervals.high, points.high * kMostBeyondPoints))};
}

/// Whether an interval reaches beyond the axis.
bool any_goes_on(const XyFrame& frame, const std::vector<Curve>& curves) {
  return std::ranges::any_of(curves, [&](const Curve& curve) {
    return std::ranges::any_of(curve.points, [&](const CurvePoint& point) {
      return point.interval && !(frame.shows(point.interval->first) && frame.shows(point.interval->second));
    });
  });
}

/// Number of workers of every point.
std::vector<double> workers_of(const std::vector<Curve>& curves) {
  std::vector<double> workers;
  for (const Curve& curve : curves) {
    for (const CurvePoint& point : curve.points) workers.push_back(point.workers);
  }
  return workers;
}

/// Draws the curves: published below, own above; whiskers where there are intervals; each marker has its
/// numbers in a tooltip: "8 workers: 412 images/s (405 to 420)".
void draw_curves(Canvas& canvas, const XyFrame& frame, const std::vector<Curve>& curves,
                 const std::vector<LineStyle>& styles, std::string_view unit) {
  for (size_t i = curves.size(); i-- > 0;) {
    std::vector<Point> points;
    for (const CurvePoint& point : curves[i].points) points.push_back(frame.at(point.workers, point.value));
    canvas.polyline(points, styles[i]);
  }
  for (size_t i = curves.size(); i-- > 0;) {
    for (const CurvePoint& point : curves[i].points) {
      const Point at = frame.at(point.workers, point.value);
      if (point.interval) {
        const auto [low, high] = *point.interval;
        canvas.whisker(at.x, frame.at(0, low).y, frame.at(0, high).y, styles[i].colour, !frame.shows(low),
                       !frame.shows(high));
      }
      canvas.marker(at, styles[i], 4.5, point_text(curves[i], point, unit));
    }
  }
}

/// Notes which curves are invisible because one that draw_curves() draws later has the same points.
void note_hidden(const std::vector<Curve>& curves, std::vector<std::string>& notes) {
  for (size_t below = 1; below < curves.size(); ++below) {
    // Single points are covered more often than not, and the table has them.
    if (curves[below].points.size() < 2) continue;
    const auto end = curves.begin() + below;
    const auto above = std::find_if(curves.begin(), end, [&](const Curve& c) { return hides(c, *end); });
    if (above != end)
      notes.push_back(fmt::format("'{}' lies under '{}': they are the same here.", end->label, above->label));
  }
}

/// Largest ratio of rates on a linear axis; beyond it the small ones would vanish.
constexpr double kMostLinearRates = 24;

/// A note on whiskers: how to read them, or how to get them.
std::string interval_note(const XyFrame& frame, const std::vector<Curve>& curves) {
  bool some = false, all = true;
  for (const Curve& curve : curves) {
    if (curve.kind == Curve::Kind::kPublished) continue;
    for (const CurvePoint& point : curve.points) (point.interval ? some : all) = point.interval.has_value();
  }
  if (some) {
    return fmt::format(
        "Whiskers are 95 % intervals; where there is none, too little was measured for one.{}",
        any_goes_on(frame, curves) ? " Those that end in an arrow reach beyond the axis." : "");
  }
  return all ? "" : "No run has an interval: more steps, or `--repeat`, give one.";
}

/// Names the baseline if it is one worker without a strategy.
std::string baseline_note(const Sources& sources) {
  for (const NamedRecord& named : sources.records) {
    for (const auto& run : named.record.runs) {
      if (run.baseline && run.baseline->strategy == results::kSingle) {
        return "Speed-up is relative to one worker without a strategy, alone on the machine.";
      }
    }
  }
  return "";
}

/// Whether a run states a speed-up of its own.
bool any_states_speedup(std::span<const NamedRecord> records) {
  return std::ranges::any_of(records, [](const NamedRecord& named) {
    return std::ranges::any_of(named.record.runs,
                               [](const results::Run& run) { return run.stated_speedup.has_value(); });
  });
}

/// The y axis of a chart of curves.
struct CurveAxis {
  std::string title;
  std::string_view unit;
  Scale scale;
  /// Workers at both ends of the line of perfect scaling; empty: none is drawn.
  std::optional<std::pair<double, double>> ideal = {};
};

/// Adds the drawing, the last point of each curve to the description, and notes on intervals and hidden
/// curves.
Chart curves_chart(Chart chart, const ChartForm& form, const std::vector<Curve>& curves, CurveAxis axis) {
  const LineStyle ideal{.colour = Colour::kAxis, .marker = Marker::kNone, .dash = "1.5 3", .width = 1.75};
  const std::vector<LineStyle> styles = styles_of(curves);
  std::vector<LegendEntry> legend;
  for (size_t i = 0; i < curves.size(); ++i) {
    const CurvePoint& last = curves[i].points.back();
    legend.push_back({curves[i].label, styles[i]});
    chart.description += fmt::format(" {}: {}{} at {}.", curves[i].label, number_text(last.value), axis.unit,
                                     counted(static_cast<int64_t>(last.workers), "worker"));
  }
  if (axis.ideal) legend.push_back({"ideal", ideal});
  Canvas canvas(form.id);
  const XyFrame frame(
      canvas, form,
      {.x_title = "workers (log scale)", .y_title = std::move(axis.title), .legend = std::move(legend)},
      Scale::log2_at(workers_of(curves)), std::move(axis.scale));
  if (axis.ideal) {
    const auto [least, most] = *axis.ideal;
    canvas.polyline({frame.at(least, least), frame.at(most, most)}, ideal);
  }
  draw_curves(canvas, frame, curves, styles, axis.unit);
  note_hidden(curves, chart.notes);
  if (const std::string note = interval_note(frame, curves); !note.empty()) chart.notes.push_back(note);
  return drawn(std::move(chart), canvas, form, frame.bottom());
}

}  // namespace

Chart speedup_chart(const Sources& sources, const ChartForm& form) {
  Chart chart{.title = "Speed-up against workers"};
  const std::vector<Curve> curves = most_telling(speedup_curves(sources), chart.notes);
  if (curves.empty()) {
    return missing_chart(
        chart.title, "no run has a speed-up: that needs the rate of one worker without a strategy",
        "Measure with `lockstep bench --ranks 1,2,4`, which adds that control run by itself.");
  }
  chart.description =
      "How many times faster than one worker the job runs, on log2 axes, with the line of a perfect "
      "speed-up.";
  if (const std::string note = baseline_note(sources); !note.empty()) chart.notes.push_back(note);
  if (any_states_speedup(sources.records) || any_states_speedup(sources.published)) {
    chart.notes.push_back("Published speed-ups are as stated; the tables have those of the rates, too.");
  }
  // The axis must hold the line of perfect scaling, too.
  const auto [least, most] = std::ranges::minmax(workers_of(curves));
  const ValueRange range = range_of(curves);
  return curves_chart(std::move(chart), form, curves,
                      {.title = "speed-up, times one worker (log scale)",
                       .unit = " times",
                       .scale = Scale::log2(std::min(range.low, least), std::max(range.high, most)),
                       .ideal = std::pair(least, most)});
}

Chart throughput_chart(const Sources& sources, const ChartForm& form) {
  Chart chart{.title = "Throughput against workers"};
  const std::vector<Curve> curves = most_telling(throughput_curves(sources), chart.notes);
  if (curves.empty()) {
    return missing_chart(chart.title, "no run has a rate", "Measure with `lockstep bench --json FILE`.");
  }
  chart.description = "Images per second of the whole job by number of workers.";
  const auto [low, high] = range_of(curves);
  const bool logarithmic = high / low > kMostLinearRates;
  return curves_chart(std::move(chart), form, curves,
                      {.title = logarithmic ? "images per second (log scale)" : "images per second",
                       .unit = " images/s",
                       .scale = logarithmic ? Scale::log10(low, high) : Scale::linear(0, high, 7)});
}

}  // namespace lockstep::plots
