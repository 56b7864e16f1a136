#include <algorithm>

#include "lockstep/plots/charts.h"
#include "lockstep/plots/curve_styles.h"

namespace lockstep::plots {
namespace {

/// Above this ratio of the largest to the smallest rate a linear axis would hide the small ones.
constexpr double kMostLinear = 24;

std::string interval_note(const std::vector<Curve>& curves) {
  bool some = false, all = true;
  for (const Curve& curve : curves) {
    if (curve.kind == Curve::Kind::kPublished) continue;
    for (const CurvePoint& point : curve.points) (point.interval ? some : all) = point.interval.has_value();
  }
  if (some) return "Whiskers are 95 % intervals; where there is none, too little was measured for one.";
  return all ? "" : "No run has an interval: more steps, or `--repeat`, give one.";
}

}  // namespace

Chart throughput_chart(const Sources& sources, const ChartForm& form) {
  Chart chart{.title = "Throughput against workers"};
  std::vector<Curve> curves = most_telling(throughput_curves(sources), chart.notes);
  if (curves.empty()) {
    return missing_chart(chart.title, "no run has a rate", "Measure with `lockstep bench --json FILE`.");
  }
  double low = curves[0].points[0].value, high = low;
  for (const Curve& curve : curves) {
    for (const CurvePoint& point : curve.points) {
      low = std::min({low, point.value, point.interval ? point.interval->first : point.value});
      high = std::max({high, point.value, point.interval ? point.interval->second : point.value});
    }
  }
  const bool logarithmic = high / low > kMostLinear;
  Canvas canvas(form.id);
  const XyFrame frame(canvas, form,
                      {.x_title = "workers (log scale)",
                       .y_title = logarithmic ? "images per second (log scale)" : "images per second",
                       .legend = legend_of(curves),
                       .plot_height = form.narrow() ? 250.0 : 320.0},
                      Scale::log2_at(workers_of(curves)),
                      logarithmic ? Scale::log10(low, high) : Scale::linear(0, high, 7));
  draw_curves(canvas, frame, curves, " images/s");
  note_hidden(curves, chart.notes);

  chart.description =
      "Images per second of the whole job by number of workers." + curves_in_words(curves, " images/s");
  if (const std::string note = interval_note(curves); !note.empty()) chart.notes.push_back(note);
  chart.markup = canvas.markup();
  chart.width = form.width;
  chart.height = frame.bottom();
  return chart;
}

}  // namespace lockstep::plots
