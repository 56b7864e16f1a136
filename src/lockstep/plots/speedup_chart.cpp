#include <algorithm>

#include "lockstep/plots/charts.h"
#include "lockstep/plots/curve_styles.h"

namespace lockstep::plots {
namespace {

std::string baseline_note(const Sources& sources) {
  for (const NamedRecord& named : sources.records) {
    for (const auto& run : named.record.runs) {
      if (run.baseline && run.baseline->strategy == "single") {
        return "Speed-up is relative to one worker without a strategy, alone on the machine.";
      }
    }
  }
  return "";
}

}  // namespace

Chart speedup_chart(const Sources& sources, const ChartForm& form) {
  Chart chart{.title = "Speed-up against workers"};
  std::vector<Curve> curves = most_telling(speedup_curves(sources), chart.notes);
  if (curves.empty()) {
    return missing_chart(
        chart.title, "no run has a speed-up: that needs the rate of one worker without a strategy",
        "Measure with `lockstep bench --ranks 1,2,4`, which adds that control run by itself.");
  }
  const std::vector<double> workers = workers_of(curves);
  double low = *std::ranges::min_element(workers), high = *std::ranges::max_element(workers);
  for (const Curve& curve : curves) {
    for (const CurvePoint& point : curve.points) {
      low = std::min({low, point.value, point.interval ? point.interval->first : point.value});
      high = std::max({high, point.value, point.interval ? point.interval->second : point.value});
    }
  }

  Canvas canvas(form.id);
  std::vector<LegendEntry> legend = legend_of(curves);
  const LineStyle ideal{.colour = Colour::kAxis, .marker = Marker::kNone, .dash = "1.5 3", .width = 1.75};
  legend.push_back({"ideal", ideal, LegendEntry::Sample::kLine});
  const XyFrame frame(canvas, form,
                      {.x_title = "workers (log scale)",
                       .y_title = "speed-up, times one worker (log scale)",
                       .legend = legend,
                       .plot_height = form.narrow() ? 250.0 : 320.0},
                      Scale::log2_at(workers), Scale::log2(low, high));
  const auto [least, most] = std::ranges::minmax(workers);
  canvas.polyline({frame.at(least, least), frame.at(most, most)}, ideal);
  draw_curves(canvas, frame, curves, " times");
  note_hidden(curves, chart.notes);

  chart.description =
      "How many times faster than one worker the job runs, on log2 axes, with the line of a perfect "
      "speed-up." +
      curves_in_words(curves, " times");
  if (const std::string note = baseline_note(sources); !note.empty()) chart.notes.push_back(note);
  if (std::ranges::any_of(sources.published, &PublishedTable::leaves_out_time)) {
    chart.notes.push_back("The speed-ups of Theano-MPI are as published: they leave synchronisation out.");
  }
  chart.markup = canvas.markup();
  chart.width = form.width;
  chart.height = frame.bottom();
  return chart;
}

}  // namespace lockstep::plots
