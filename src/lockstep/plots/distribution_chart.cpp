#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/plots/chart.h"
#include "lockstep/plots/curves.h"
#include "lockstep/plots/frame.h"
#include "lockstep/plots/text.h"

namespace lockstep::plots {
namespace {

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

}  // namespace

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

}  // namespace lockstep::plots
