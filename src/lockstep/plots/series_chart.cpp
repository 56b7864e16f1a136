#include <algorithm>
#include <map>
#include <span>

#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/plots/chart.h"
#include "lockstep/plots/curves.h"
#include "lockstep/plots/frame.h"
#include "lockstep/plots/text.h"
#include "lockstep/results/record/launches.h"

namespace lockstep::plots {
namespace {

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

}  // namespace lockstep::plots
