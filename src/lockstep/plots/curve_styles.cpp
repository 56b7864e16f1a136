#include "lockstep/plots/curve_styles.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "lockstep/plots/numbers.h"

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

/// Whether every point of `below` is so close to one of `above` that its marker cannot be told from it.
bool hides(const Curve& above, const Curve& below) {
  constexpr double kClose = 0.005;
  return std::ranges::all_of(below.points, [&](const CurvePoint& point) {
    return std::ranges::any_of(above.points, [&](const CurvePoint& other) {
      return other.workers == point.workers && std::abs(other.value / point.value - 1) < kClose;
    });
  });
}

}  // namespace

std::vector<LineStyle> styles_of(const std::vector<Curve>& curves) {
  std::vector<LineStyle> styles;
  size_t hue = 0;
  // Counted by strategy, so that a control looks the same in a chart that shows all kinds and in one that
  // does not.
  std::map<std::string, size_t> controls;
  for (const Curve& curve : curves) {
    if (curve.kind == Curve::Kind::kControl) {
      LineStyle style = control_style(controls[curve.strategy]++);
      if (curve.strategy == "single") style.marker = Marker::kCross;
      styles.push_back(style);
    } else {
      styles.push_back(curve.kind == Curve::Kind::kOwn ? line_style(hue) : published_style(hue));
      ++hue;
    }
  }
  return styles;
}

std::vector<LegendEntry> legend_of(const std::vector<Curve>& curves) {
  std::vector<LegendEntry> legend;
  const std::vector<LineStyle> styles = styles_of(curves);
  for (size_t i = 0; i < curves.size(); ++i)
    legend.push_back({curves[i].label, styles[i], LegendEntry::Sample::kLine});
  return legend;
}

std::vector<double> workers_of(const std::vector<Curve>& curves) {
  std::vector<double> workers;
  for (const Curve& curve : curves) {
    for (const CurvePoint& point : curve.points) workers.push_back(point.workers);
  }
  return workers;
}

void draw_curves(Canvas& canvas, const XyFrame& frame, const std::vector<Curve>& curves,
                 std::string_view unit) {
  const std::vector<LineStyle> styles = styles_of(curves);
  for (size_t i = curves.size(); i-- > 0;) {
    std::vector<Point> points;
    for (const CurvePoint& point : curves[i].points) points.push_back(frame.at(point.workers, point.value));
    canvas.polyline(points, styles[i]);
  }
  for (size_t i = curves.size(); i-- > 0;) {
    for (const CurvePoint& point : curves[i].points) {
      const Point at = frame.at(point.workers, point.value);
      if (point.interval) {
        canvas.whisker(at.x, frame.at(0, point.interval->first).y, frame.at(0, point.interval->second).y,
                       styles[i].colour);
      }
      canvas.marker(at, styles[i], 4.5, point_text(curves[i], point, unit));
    }
  }
}

void note_hidden(const std::vector<Curve>& curves, std::vector<std::string>& notes) {
  for (size_t below = 1; below < curves.size(); ++below) {
    // A single point is covered more often than not: the table has it.
    if (curves[below].points.size() < 2) continue;
    const auto end = curves.begin() + below;
    const auto above = std::find_if(curves.begin(), end, [&](const Curve& c) { return hides(c, *end); });
    if (above != end)
      notes.push_back(fmt::format("'{}' lies under '{}': they are the same here.", end->label, above->label));
  }
}

std::string curves_in_words(const std::vector<Curve>& curves, std::string_view unit) {
  std::string text;
  for (const Curve& curve : curves) {
    const CurvePoint& last = curve.points.back();
    text += fmt::format(" {}: {}{} at {}.", curve.label, number_text(last.value), unit,
                        counted(static_cast<int64_t>(last.workers), "worker"));
  }
  return text;
}

}  // namespace lockstep::plots
