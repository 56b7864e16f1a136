#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/plots/frame.h"
#include "lockstep/results/tables/row_tables.h"

namespace lockstep::plots {

using results::labelled_runs;
using results::LabelledRun;
using results::with_ranks;
using results::with_ranks_only;

/// The runs of each network, in the order of the networks' first runs; within a network as they were,
/// controls of a file last.
std::vector<std::vector<LabelledRun>> by_network(const std::vector<LabelledRun>& runs);

/// Step times of a run in seconds, in the order in which the steps ran; entries that are not finite are left
/// out.
struct StepSeries {
  std::vector<double> warmup_s;
  std::vector<double> measured_s;
};
StepSeries step_series(const results::Run& run);

struct CurvePoint {
  /// Ranks, the value of a setting, or an epoch.
  double x = 0;
  double value = 0;
  /// 95 % interval; empty where none is known.
  std::optional<std::pair<double, double>> interval;
};

/// Points by rising x, all finite and positive.
struct Curve {
  enum class Kind { kOwn, kControl, kPublished };
  std::string label;
  std::string model;
  std::string strategy;
  Kind kind = Kind::kOwn;
  std::vector<CurvePoint> points;
  /// Predicted, from the last point on.
  std::vector<results::Forecast> beyond = {};
};

/// Rates over ranks: own curves, then controls (`independent`, `single`), then published ones.
std::vector<Curve> throughput_curves(const Sources& sources);
/// Known speed-ups over ranks, with their forecasts. `single`, which is 1 by definition, is left out.
std::vector<Curve> speedup_curves(const Sources& sources);
/// Ranks of what all speed-ups are relative to, at least one, in words: "one rank without a strategy", "2
/// ranks with ddp".
std::map<int, std::string> baselines_of(const Sources& sources);
/// Rates over a setting that was swept, without `single` and published ones.
struct SettingCurves {
  const results::Setting* setting = nullptr;
  std::vector<Curve> curves;
};
/// Curves over the setting that has the most values, three or more, in runs that differ in nothing else.
std::optional<SettingCurves> setting_curves(const Sources& sources);

/// Number of curves that one chart can hold and stay legible.
inline constexpr size_t kMostCurves = 8;

/// At most kMostCurves: own ones first, each network's `independent` among them, and published ones of the
/// same networks. `notes` gets the number of curves left out.
std::vector<Curve> most_telling(std::vector<Curve> curves, std::vector<std::string>& notes);

/// A style for each curve: own ones with filled markers, controls and published ones receding. Of several
/// networks each has a hue, which its controls share.
std::vector<LineStyle> styles_of(const std::vector<Curve>& curves);

/// Draws what is predicted beyond a curve's last point, which is at `from`: a dotted line in a band. Its
/// marks have their numbers in a tooltip.
void draw_beyond(Canvas& canvas, const XyFrame& frame, const Curve& curve, LineStyle style, Point from);
inline constexpr const char* kPredictedDash = "1.5 4";

/// A chart of curves over sizes in bytes, both axes logarithmic. `unit`: behind a value, " GB/s".
Chart size_chart(Chart chart, const ChartForm& form, const std::vector<Curve>& curves,
                 const std::string& y_title, const std::string& unit);

/// At most `most` runs for charts with a row for each: spread evenly, the last one always among them. Says in
/// `notes` how many were left out.
std::vector<LabelledRun> most_telling(std::vector<LabelledRun> runs, size_t most,
                                      std::vector<std::string>& notes);

}  // namespace lockstep::plots
