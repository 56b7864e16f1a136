#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/plots/curves.h"
#include "lockstep/plots/frame.h"
#include "lockstep/plots/text.h"
#include "lockstep/results/record/launches.h"
#include "lockstep/results/tables/tables.h"

namespace lockstep::plots {
namespace {

using results::BucketTimes;
using results::RankBreakdown;

constexpr size_t kMostPanels = 4;

struct Panel {
  LabelledRun run;
  StepSeries series;
};

/// The run with the most ranks of every curve; runs of controls only if there are no others.
std::vector<Panel> choose_panels(const Sources& sources, std::vector<std::string>& notes) {
  std::vector<LabelledRun> last;
  std::map<std::string, size_t> known;
  std::vector<LabelledRun> runs = labelled_runs(sources);
  const bool some = std::ranges::any_of(
      runs, [](const LabelledRun& run) { return !run.control && !run.run->samples.empty(); });
  for (const LabelledRun& run : runs) {
    if ((run.control && some) || step_series(*run.run).measured_s.empty()) continue;
    const auto [at, fresh] = known.try_emplace(run.curve, last.size());
    // Runs of a curve come by rising ranks or not: the one with the most stays.
    if (fresh) {
      last.push_back(run);
    } else if (run.run->ranks >= last[at->second].run->ranks) {
      last[at->second] = run;
    }
  }
  if (runs.size() > last.size() && !last.empty()) notes.push_back("Shown are the runs with the most ranks.");
  if (std::ranges::any_of(last, [](const LabelledRun& run) { return results::launches(*run.run) > 1; }))
    notes.push_back("Steps of several launches stand one after another, after the warm-up of all.");
  std::vector<Panel> panels;
  for (const LabelledRun& run : most_telling(std::move(last), kMostPanels, notes))
    panels.push_back({run, step_series(*run.run)});
  return panels;
}

struct Range {
  double low = 0;
  double high = 1;
};

struct Sample {
  double index = 0;
  double value = 0;
};

/// The smallest and the largest value of each of `bins` bins, in their order: all that a drawing of `bins`
/// pixels can show of the series. Indices count from `first`.
std::vector<Sample> thinned(std::span<const double> values, size_t bins, double first) {
  std::vector<Sample> samples;
  const auto add = [&](size_t i) { samples.push_back({first + static_cast<double>(i), values[i]}); };
  if (values.size() <= 2 * bins) {
    for (size_t i = 0; i < values.size(); ++i) add(i);
    return samples;
  }
  for (size_t bin = 0; bin < bins; ++bin) {
    const auto begin = values.begin() + bin * values.size() / bins;
    const auto end = values.begin() + (bin + 1) * values.size() / bins;
    const auto [least, most] = std::minmax_element(begin, end);
    // Both ends in the order in which they occurred, so that the line does not run backwards.
    const size_t a = std::min(least, most) - values.begin(), b = std::max(least, most) - values.begin();
    add(a);
    if (b != a) add(b);
  }
  return samples;
}

/// Range of the y axis: all measured steps unless a few lie very far out. Warm-up steps, which may take many
/// times as long, do not widen it.
Range shown_range(const StepSeries& series) {
  std::vector<double> sorted = series.measured_s;
  std::ranges::sort(sorted);
  const double median = measure::percentile_of_sorted(sorted, 50);
  const double usual = std::max({2.0 * median, 1.1 * measure::percentile_of_sorted(sorted, 95)});
  double high = std::min(sorted.back(), usual);
  for (double step_s : series.warmup_s) high = std::max(high, std::min(step_s, 1.35 * median));
  double low = sorted.front();
  for (double step_s : series.warmup_s) low = std::min(low, step_s);
  const double pad = std::max((high - low) * 0.08, 0.01 * median);
  return {std::max(0.0, low - pad), high + pad};
}

/// Draws a part of the series as a line; a triangle at the top of the axis marks a step beyond it.
void draw_part(Canvas& canvas, const XyFrame& frame, std::span<const double> steps_s, double first,
               size_t bins, const LineStyle& style, double unit, double top) {
  std::vector<Point> points;
  const std::vector<Sample> samples = thinned(steps_s, bins, first);
  for (const Sample& sample : samples) points.push_back(frame.at(sample.index, sample.value * unit));
  canvas.polyline(points, style);
  if (points.size() == 1) canvas.marker(points[0], {.colour = style.colour}, 3);
  size_t marked = 0;
  for (const Sample& sample : samples) {
    // More triangles than this would run into one another.
    if (sample.value * unit <= top || ++marked > 40) continue;
    canvas.marker({frame.at(sample.index, 0).x, frame.plot().y + 4},
                  {.colour = Colour::kVermillion, .marker = Marker::kTriangle}, 3.5,
                  fmt::format("step {}: {}", grouped_text(sample.index, 0), time_text(sample.value)));
  }
}

struct DrawnPanel {
  double bottom = 0;
  bool cut = false;
};

/// One run: warm-up on a shaded ground, the steps, their median and its interval. `last`: has the x axis'
/// title.
DrawnPanel draw_panel(Canvas& canvas, const ChartForm& form, const Panel& panel,
                      std::vector<LegendEntry> legend, double top, bool last, double plot_height) {
  const auto warmup = static_cast<double>(panel.series.warmup_s.size());
  const auto measured = static_cast<double>(panel.series.measured_s.size());
  const Range range = shown_range(panel.series);
  const TimeUnit unit = time_unit(range.high);
  const double per_second = unit.per_second;
  Scale y = Scale::linear(range.low * per_second, range.high * per_second, 5);
  // Read before the frame takes the scale.
  const double y_high = y.high();
  const XyFrame frame(canvas, form,
                      {.x_title = !last        ? ""
                                  : warmup > 0 ? "step, counted from the end of warm-up"
                                               : "step",
                       .y_title = fmt::format("{}: step in {}", with_ranks(panel.run), unit.name),
                       .legend = std::move(legend),
                       .plot_height = plot_height,
                       .top = top,
                       .vertical_grid = false},
                      Scale::linear_exactly(-warmup, std::max(measured, 2.0), form.ticks()), std::move(y));
  const Box& plot = frame.plot();
  if (warmup > 0) {
    const double left = frame.at(-warmup, 0).x, cut = frame.at(-0.5, 0).x;
    canvas.rect({left, plot.y, std::max(1.0, cut - left), plot.height}, Colour::kMuted, 0.16);
    canvas.line({cut, plot.y}, {cut, plot.bottom()}, Colour::kMuted, 1.5, "4 3");
  }
  const results::Run& run = *panel.run.run;
  const auto left = frame.at(0, 0).x, right = frame.at(measured - 1, 0).x;
  if (run.step_interval_s && run.step_interval_s->missing.empty() &&
      run.step_interval_s->high >= run.step_interval_s->low) {
    const double high = frame.at(0, run.step_interval_s->high * per_second).y,
                 low = frame.at(0, run.step_interval_s->low * per_second).y;
    canvas.rect({left, high, right - left, std::max(1.5, low - high)}, Colour::kVermillion, 0.25);
  }
  // About one bin per pixel of the plot.
  const auto bins = static_cast<size_t>(plot.width);
  draw_part(canvas, frame, panel.series.warmup_s, -warmup, bins / 4,
            {.colour = Colour::kMuted, .width = 1.25}, per_second, y_high);
  draw_part(canvas, frame, panel.series.measured_s, 0, bins, {.colour = Colour::kBlue, .width = 1.25},
            per_second, y_high);
  // Median of the tables, in which launches count alike.
  const double median = run.step_s.p50.value_or(measure::percentile(panel.series.measured_s, 50));
  canvas.line({left, frame.at(0, median * per_second).y}, {right, frame.at(0, median * per_second).y},
              Colour::kVermillion, 1.75, "7 4");
  const auto beyond = [&](double step_s) { return step_s * per_second > y_high; };
  return {frame.bottom(), std::ranges::any_of(panel.series.warmup_s, beyond) ||
                              std::ranges::any_of(panel.series.measured_s, beyond)};
}

/// Entries for the marks that some panel has.
std::vector<LegendEntry> series_legend(const std::vector<Panel>& panels) {
  const auto has_warmup = [](const Panel& panel) { return !panel.series.warmup_s.empty(); };
  const auto has_interval = [](const Panel& panel) {
    return panel.run.run->step_interval_s && panel.run.run->step_interval_s->missing.empty();
  };
  std::vector<LegendEntry> legend{
      {"step", {.colour = Colour::kBlue, .marker = Marker::kNone, .width = 1.5}},
      {"median", {.colour = Colour::kVermillion, .marker = Marker::kNone, .dash = "7 4", .width = 1.75}}};
  if (std::ranges::any_of(panels, has_interval)) {
    legend.push_back({"its 95 % interval", {.colour = Colour::kVermillion}, LegendEntry::Sample::kBand});
  }
  if (std::ranges::any_of(panels, has_warmup)) {
    legend.push_back({"warm-up, left out", {.colour = Colour::kMuted}, LegendEntry::Sample::kBand});
  }
  return legend;
}

constexpr size_t kMostRows = 14;
constexpr double kRowHeight = 40;
constexpr double kBoxHeight = 9;
/// Above this ratio of the slowest to the fastest median the axis is logarithmic.
constexpr double kMostLinear = 6;

/// A run and its step times, ascending.
struct RunSteps {
  LabelledRun run;
  std::vector<double> sorted_s;
  double quantile(double percent) const { return measure::percentile_of_sorted(sorted_s, percent); }
  /// Median of the tables, in which launches count alike.
  double median_s() const { return run.run->step_s.p50.value_or(quantile(50)); }
  /// Ends of the axis for this run: a few far outliers would squeeze all the rest into a corner.
  double shown_high_s() const {
    const double median = quantile(50);
    return std::min(sorted_s.back(), std::max(median + 5 * (quantile(90) - median), 1.2 * median));
  }
  double shown_low_s() const {
    const double median = quantile(50);
    return std::max(sorted_s.front(), std::min(median - 5 * (median - quantile(10)), median / 1.2));
  }
  /// Steps that are not between them.
  size_t beyond() const {
    const auto low = std::ranges::lower_bound(sorted_s, shown_low_s() * (1 - 1e-9));
    const auto high = std::ranges::upper_bound(sorted_s, shown_high_s() * (1 + 1e-9));
    return static_cast<size_t>((low - sorted_s.begin()) + (sorted_s.end() - high));
  }
};

/// Runs whose steps are known, network by network, at most kMostRows in all.
std::vector<std::vector<RunSteps>> networks_with_steps(const Sources& sources,
                                                       std::vector<std::string>& notes) {
  std::vector<LabelledRun> labelled = labelled_runs(sources);
  std::erase_if(labelled, [](const LabelledRun& run) { return step_series(*run.run).measured_s.empty(); });
  std::vector<std::vector<RunSteps>> networks;
  for (const auto& network : by_network(most_telling(std::move(labelled), kMostRows, notes))) {
    std::vector<RunSteps>& runs = networks.emplace_back();
    for (const LabelledRun& run : network) {
      runs.push_back({run, step_series(*run.run).measured_s});
      std::ranges::sort(runs.back().sorted_s);
    }
  }
  return networks;
}

/// Number of values in each of `bins` equal parts of low..high; values outside are left out.
std::vector<double> histogram(std::span<const double> values, double low, double high, size_t bins) {
  std::vector<double> counts(bins, 0);
  for (double value : values) {
    if (!(value >= low && value <= high)) continue;
    const double share = high > low ? (value - low) / (high - low) : 0;
    counts[std::min(bins - 1, static_cast<size_t>(share * static_cast<double>(bins)))] += 1;
  }
  return counts;
}

/// Draws a histogram of the step times as a hill.
void draw_hill(Canvas& canvas, const RowFrame& frame, const Box& row, const RunSteps& steps, double unit) {
  const double low = steps.shown_low_s(), high = steps.shown_high_s();
  const double ground = row.bottom() - kBoxHeight - 3, room = ground - row.y;
  if (steps.sorted_s.size() < 8 || high <= low) {
    // Too few steps for a shape: draw each of them.
    for (double step_s : steps.sorted_s) {
      const double x = frame.x(step_s * unit);
      canvas.line({x, ground - room * 0.6}, {x, ground}, Colour::kSky, 1.5);
    }
    return;
  }
  // Freedman and Diaconis' rule: outliers widen the range, not the bins.
  const double bin_s = 2 * (steps.quantile(75) - steps.quantile(25)) / std::cbrt(steps.sorted_s.size());
  const size_t bins = bin_s > 0 ? static_cast<size_t>(std::clamp((high - low) / bin_s, 6.0, 80.0)) : 20;
  const std::vector<double> counts = histogram(steps.sorted_s, low, high, bins);
  const double tallest = *std::ranges::max_element(counts);
  std::vector<Point> outline{{frame.x(low * unit), ground}};
  for (size_t i = 0; i < bins; ++i) {
    // A bin with a single step out of thousands stays visible.
    const double y = counts[i] > 0 ? ground - std::max(1.5, room * counts[i] / tallest) : ground;
    const double width = (high - low) / static_cast<double>(bins);
    const double left = low + static_cast<double>(i) * width;
    outline.push_back({frame.x(left * unit), y});
    outline.push_back({frame.x((left + width) * unit), y});
  }
  outline.push_back({frame.x(high * unit), ground});
  canvas.polygon(outline, Colour::kSky, 0.75);
}

/// Draws a line from the 5th to the 95th percentile, a box for the middle half and a mark for the median.
void draw_box(Canvas& canvas, const RowFrame& frame, const Box& row, const RunSteps& steps, double unit) {
  const double middle = row.bottom() - kBoxHeight / 2;
  const auto x = [&](double percent) { return frame.x(steps.quantile(percent) * unit); };
  canvas.line({x(5), middle}, {x(95), middle}, Colour::kBlue, 1.5);
  const std::string tooltip = fmt::format(
      "{}: {}, p50 {}, middle half {} to {}, p95 {}", with_ranks(steps.run),
      counted(static_cast<int64_t>(steps.sorted_s.size()), "step"), time_text(steps.median_s()),
      time_text(steps.quantile(25)), time_text(steps.quantile(75)), time_text(steps.run.run->step_s.p95));
  canvas.rect({x(25), row.bottom() - kBoxHeight, std::max(1.5, x(75) - x(25)), kBoxHeight}, Colour::kBlue, 1,
              1, tooltip);
  const double median = frame.x(steps.median_s() * unit);
  canvas.line({median, row.bottom() - kBoxHeight - 3}, {median, row.bottom() + 2}, Colour::kInk, 2.5);
}

/// Draws the runs of a network on an axis of their own, from `top` on. `named`: below the network's name.
/// Returns the lower edge.
double draw_network(Canvas& canvas, const ChartForm& form, const std::vector<RunSteps>& runs,
                    std::vector<LegendEntry> legend, bool named, double top) {
  double low = runs[0].shown_low_s(), high = 0, fastest = runs[0].quantile(50), slowest = fastest;
  for (const RunSteps& run : runs) {
    low = std::min(low, run.shown_low_s());
    high = std::max(high, run.shown_high_s());
    fastest = std::min(fastest, run.quantile(50));
    slowest = std::max(slowest, run.quantile(50));
  }
  const TimeUnit unit = time_unit(slowest);
  const bool logarithmic = low > 0 && slowest > kMostLinear * fastest;
  RowFrame::Layout layout{
      .x_title = fmt::format("step in {}{}", unit.name, logarithmic ? " (log scale)" : ""),
      .legend = std::move(legend),
      .right = 14,
      .gap = 14,
      .top = top};
  for (const RunSteps& run : runs) {
    layout.rows.push_back({named ? with_ranks_only(run.run) : with_ranks(run.run), kRowHeight,
                           named ? run.run.run->model : ""});
  }
  const int ticks = form.ticks();
  const double per_second = unit.per_second;
  const RowFrame frame(canvas, form, layout,
                       logarithmic ? Scale::log10(low * per_second, high * per_second)
                                   : Scale::linear(low * per_second, high * per_second, ticks));
  for (size_t i = 0; i < runs.size(); ++i) {
    draw_hill(canvas, frame, frame.row(i), runs[i], per_second);
    draw_box(canvas, frame, frame.row(i), runs[i], per_second);
  }
  return frame.bottom();
}

constexpr size_t kMostRanks = 8;
constexpr size_t kMostLanes = 4;
/// Keeps the drawing small for a plan with a bucket per parameter.
constexpr size_t kMostBuckets = 160;
constexpr double kStrip = 11;
constexpr double kLane = 17;
constexpr double kBar = 14;

/// Whether the times of a bucket are finite and in order; a damaged file may hold anything.
bool in_order(const BucketTimes& bucket) {
  return std::isfinite(bucket.ready_s) && std::isfinite(bucket.started_s) &&
         std::isfinite(bucket.all_arrived_s) && std::isfinite(bucket.ended_s) &&
         bucket.ended_s >= bucket.ready_s && bucket.ended_s >= 0;
}

/// At most kMostBuckets of a rank.
std::vector<BucketTimes> usable_buckets(const RankBreakdown& rank) {
  std::vector<BucketTimes> buckets;
  for (const BucketTimes& bucket : rank.buckets) {
    if (in_order(bucket) && buckets.size() < kMostBuckets) buckets.push_back(bucket);
  }
  return buckets;
}

/// Chooses among the runs whose buckets are known: the one in the headline, otherwise the one with the most
/// ranks, strategies before controls.
std::optional<LabelledRun> choose_run(const Sources& sources) {
  const std::optional<LabelledRun> headline = results::headline_run(sources.records);
  std::optional<LabelledRun> best;
  for (const LabelledRun& run : labelled_runs(sources)) {
    if (!run.run->breakdown) continue;
    const auto& ranks = run.run->breakdown->ranks;
    if (std::ranges::none_of(ranks, [](const RankBreakdown& rank) { return !usable_buckets(rank).empty(); }))
      continue;
    const auto weight = [&](const LabelledRun& each) {
      return std::tuple(headline && headline->run == each.run, !each.control, each.run->ranks);
    };
    if (!best || weight(run) > weight(*best)) best = run;
  }
  return best;
}

/// Lane of each bucket, so that no two buckets in one lane overlap. Once all kMostLanes are taken, a bucket
/// goes to the lane that is free first. Greedy interval scheduling: buckets by the time they are ready, each
/// into the first lane that is free.
std::vector<size_t> bucket_lanes(const std::vector<BucketTimes>& buckets) {
  std::vector<size_t> order(buckets.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return buckets[i].ready_s; });
  std::vector<size_t> lanes(buckets.size(), 0);
  std::array<double, kMostLanes> free_at;
  free_at.fill(std::numeric_limits<double>::lowest());
  for (size_t i : order) {
    auto lane = std::ranges::find_if(free_at, [&](double end_s) { return end_s <= buckets[i].ready_s; });
    if (lane == free_at.end()) lane = std::ranges::min_element(free_at);
    *lane = std::max(*lane, buckets[i].ended_s);
    lanes[i] = lane - free_at.begin();
  }
  return lanes;
}

/// The ranks to show: kMostRanks from the first to the last, spread evenly, and the straggler.
std::vector<size_t> chosen_ranks(const results::Run& run) {
  const size_t all = run.breakdown->ranks.size(), most = std::min(all, kMostRanks);
  std::set<size_t> chosen;
  for (size_t i = 0; i < most; ++i) chosen.insert(most == 1 ? 0 : i * (all - 1) / (most - 1));
  for (size_t i = 0; i < all; ++i)
    if (run.is_straggler(i)) chosen.insert(i);
  return {chosen.begin(), chosen.end()};
}

double finite_or_zero(double value) {
  return std::isfinite(value) ? std::max(0.0, value) : 0;
}

/// The end of a rank's step or of its last bucket, whichever is later.
double end_of(const RankBreakdown& rank) {
  double end_s = finite_or_zero(rank.mean.step_s);
  for (const BucketTimes& bucket : usable_buckets(rank)) end_s = std::max(end_s, bucket.ended_s);
  return end_s;
}

/// Draws the phases of a rank's step as a strip above its buckets.
void draw_strip(Canvas& canvas, const RowFrame& frame, const Box& row, const RankBreakdown& rank,
                double unit) {
  double begin_s = 0;
  for (const PhaseLook& look : phase_looks()) {
    const double seconds = finite_or_zero(rank.mean.*look.seconds);
    if (seconds <= 0) continue;
    const double left = frame.x(begin_s * unit), right = frame.x((begin_s + seconds) * unit);
    begin_s += seconds;
    draw_phase(canvas, {left, row.y, std::max(0.5, right - left - 0.5), kStrip}, look,
               fmt::format("{}: {}", look.name, time_text(seconds)));
  }
}

std::string tooltip_of(const BucketTimes& bucket, size_t number) {
  return fmt::format("bucket {}: {}, ready at {}, started at {}, all ranks there at {}, done at {}", number,
                     format_bytes(bucket.bytes), time_text(bucket.ready_s), time_text(bucket.started_s),
                     time_text(bucket.all_arrived_s), time_text(bucket.ended_s));
}

/// Draws one bucket from ready to done:
///
///     |-----/////////\\\\\\\|
///     |     |        |       |
///   ready started  all there done
///
/// A stroke where it was ready, a line while it waited to be sent, a box hatched upwards while it waited for
/// other ranks, and one hatched downwards while it was transferred.
void draw_bucket(Canvas& canvas, const RowFrame& frame, double top, const BucketTimes& bucket, size_t number,
                 double unit) {
  const double started_s = std::clamp(bucket.started_s, bucket.ready_s, bucket.ended_s);
  const double arrived_s = std::clamp(bucket.all_arrived_s, started_s, bucket.ended_s);
  const auto x = [&](double seconds) { return frame.x(std::max(0.0, seconds) * unit); };
  const double middle = top + kBar / 2;
  canvas.line({x(bucket.ready_s), top + 2}, {x(bucket.ready_s), top + kBar - 2}, Colour::kInk, 1.5);
  if (x(started_s) - x(bucket.ready_s) > 0.5)
    canvas.line({x(bucket.ready_s), middle}, {x(started_s), middle}, Colour::kMuted, 1.5);
  const std::string tooltip = tooltip_of(bucket, number);
  const PhaseLook& waiting = phase_looks()[3];
  const PhaseLook& transfer = phase_looks()[4];
  if (arrived_s > started_s)
    draw_phase(canvas, {x(started_s), top, x(arrived_s) - x(started_s), kBar}, waiting, tooltip);
  const Box moving{x(arrived_s), top, std::max(1.0, x(bucket.ended_s) - x(arrived_s)), kBar};
  draw_phase(canvas, moving, transfer, tooltip);
  const std::string label = std::to_string(number);
  // The number goes on a plain ground, if the box is wide enough for it.
  const double needed = text_width(label, kSmallTextSize) + 4;
  if (moving.width < needed + 2) return;
  canvas.rect({moving.x + (moving.width - needed) / 2, top + 1, needed, kBar - 2}, transfer.fill, 1, 2);
  canvas.text({moving.x + moving.width / 2, top + kBar - 2.7}, label,
              {.colour = transfer.text, .anchor = Anchor::kMiddle, .size = kSmallTextSize});
}

std::vector<LegendEntry> bucket_legend(const std::vector<const results::PhaseTimes*>& means) {
  std::vector<LegendEntry> legend{{"ready", {.colour = Colour::kInk, .marker = Marker::kNone, .width = 1.5}}};
  std::vector<const PhaseLook*> looks = phases_in(means);
  for (size_t always : {3, 4}) {
    if (std::ranges::find(looks, &phase_looks()[always]) == looks.end())
      looks.push_back(&phase_looks()[always]);
  }
  for (const PhaseLook* look : looks) legend.push_back(legend_entry(*look));
  return legend;
}

}  // namespace

Chart series_chart(const Sources& sources, const ChartForm& form) {
  Chart chart{.title = "Step after step"};
  const std::vector<Panel> panels = choose_panels(sources, chart.notes);
  if (panels.empty()) {
    return missing_chart(chart.title, "no run has the times of its steps",
                         "Files of `lockstep bench --json FILE` have them.");
  }
  Canvas canvas(form.id);
  std::vector<LegendEntry> legend = series_legend(panels);
  chart.description = "Step times in the order in which they ran.";
  const double plot_height = panels.size() == 1 ? 180 : 120;
  double bottom = 0;
  bool cut = false;
  for (size_t i = 0; i < panels.size(); ++i) {
    const DrawnPanel panel = draw_panel(canvas, form, panels[i], i == 0 ? legend : std::vector<LegendEntry>(),
                                        bottom, i + 1 == panels.size(), plot_height);
    bottom = panel.bottom;
    cut |= panel.cut;
    chart.description += fmt::format(" {}: {} of warm-up, then {}.", with_ranks(panels[i].run),
                                     counted(panels[i].series.warmup_s.size(), "step"),
                                     counted(panels[i].series.measured_s.size(), "measured step"));
  }
  if (cut) chart.notes.push_back("Triangles: steps that took longer than the axis shows.");
  return drawn(std::move(chart), canvas, form, bottom);
}

Chart distribution_chart(const Sources& sources, const ChartForm& form) {
  Chart chart{.title = "How step times are distributed"};
  const std::vector<std::vector<RunSteps>> networks = networks_with_steps(sources, chart.notes);
  if (networks.empty()) {
    return missing_chart(chart.title, "no run has the times of its steps",
                         "Files of `lockstep bench --json FILE` have them.");
  }
  Canvas canvas(form.id);
  chart.description = "The distribution of step times of each run.";
  std::vector<LegendEntry> legend{
      {"steps", {.colour = Colour::kSky}, LegendEntry::Sample::kSwatch},
      {"middle half", {.colour = Colour::kBlue}, LegendEntry::Sample::kSwatch},
      {"median", {.colour = Colour::kInk, .marker = Marker::kNone, .width = 2.5}}};
  double bottom = 0;
  size_t beyond = 0, described = 0;
  for (const std::vector<RunSteps>& network : networks) {
    bottom = draw_network(canvas, form, network, std::exchange(legend, {}), networks.size() > 1, bottom);
    for (const RunSteps& run : network) {
      beyond += run.beyond();
      if (described++ >= 8) continue;
      chart.description += fmt::format(" {}: median {}.", with_ranks(run.run), time_text(run.median_s()));
    }
  }
  chart.notes.push_back("The line reaches from the 5th to the 95th percentile.");
  if (beyond > 0) {
    chart.notes.push_back(fmt::format("{} far beyond the rest {} not in the hills.", counted(beyond, "step"),
                                      beyond == 1 ? "is" : "are"));
  }
  return drawn(std::move(chart), canvas, form, bottom);
}

Chart buckets_chart(const Sources& sources, const ChartForm& form) {
  Chart chart{.title = "Buckets of a mean step"};
  const std::optional<LabelledRun> run = choose_run(sources);
  if (!run) {
    return missing_chart(chart.title, "no run tells when its buckets were under way",
                         "Measure it with `lockstep bench --breakdown --json FILE`; strategies that send no "
                         "buckets, and recordings without collectives, have none.");
  }
  chart.title += ": " + with_ranks(*run);
  const results::Breakdown& breakdown = *run->run->breakdown;
  const std::vector<size_t> ranks = chosen_ranks(*run->run);

  RowFrame::Layout layout{.right = 12, .gap = 12};
  std::vector<const results::PhaseTimes*> means;
  std::vector<std::vector<BucketTimes>> buckets;
  std::vector<std::vector<size_t>> lanes;
  double end_s = 0;
  for (size_t rank : ranks) {
    means.push_back(&breakdown.ranks[rank].mean);
    buckets.push_back(usable_buckets(breakdown.ranks[rank]));
    lanes.push_back(bucket_lanes(buckets.back()));
    const size_t used = lanes.back().empty() ? 0 : *std::ranges::max_element(lanes.back()) + 1;
    const char* slowest = run->run->is_straggler(rank) ? " (slowest)" : "";
    layout.rows.push_back({fmt::format("rank {}{}", run->run->rank_at(rank), slowest),
                           kStrip + 3 + kLane * static_cast<double>(used)});
    end_s = std::max(end_s, end_of(breakdown.ranks[rank]));
  }
  const TimeUnit unit = time_unit(end_s);
  layout.legend = bucket_legend(means);
  layout.x_title = fmt::format("{} since the step began", unit.name);

  Canvas canvas(form.id);
  const RowFrame frame(canvas, form, layout, Scale::linear(0, end_s * unit.per_second, form.ticks()));
  for (size_t i = 0; i < ranks.size(); ++i) {
    const Box& row = frame.row(i);
    draw_strip(canvas, frame, row, breakdown.ranks[ranks[i]], unit.per_second);
    for (size_t b = 0; b < buckets[i].size(); ++b) {
      draw_bucket(canvas, frame, row.y + kStrip + 3 + kLane * static_cast<double>(lanes[i][b]), buckets[i][b],
                  b + 1, unit.per_second);
    }
  }
  chart.description = fmt::format(
      "For each rank the mean phases of a step, and below them when each of its {} was ready, under way and "
      "combined.",
      counted(buckets[0].size(), "bucket"));
  if (const auto overlap = breakdown.overlap()) {
    chart.description +=
        fmt::format(" {} of communication was hidden behind the backward pass.", share_text(*overlap));
  }
  if (ranks.size() < breakdown.ranks.size()) {
    chart.notes.push_back(
        fmt::format("{} of {} are drawn.", ranks.size(), counted(breakdown.ranks.size(), "rank")));
  }
  if (std::ranges::any_of(ranks, [&](size_t place) { return run->run->is_straggler(place); }))
    chart.notes.push_back(fmt::format("The others waited for rank {} most.", *breakdown.straggler));
  return drawn(std::move(chart), canvas, form, frame.bottom());
}

}  // namespace lockstep::plots
