#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/plots/chart.h"

namespace lockstep::plots {

using results::labelled_runs;
using results::LabelledRun;
using results::with_ranks;
using results::with_ranks_only;

/// The runs of each network, in the order of the networks' first runs; within a network as they were,
/// controls of a file last.
std::vector<std::vector<LabelledRun>> by_network(const std::vector<LabelledRun>& runs);

struct CurvePoint {
  double workers = 0;
  double value = 0;
  /// 95 % interval; empty where none is known.
  std::optional<std::pair<double, double>> interval;
};

/// Points by rising number of workers, all finite and positive.
struct Curve {
  enum class Kind { kOwn, kControl, kPublished };
  std::string label;
  std::string model;
  std::string strategy;
  Kind kind = Kind::kOwn;
  std::vector<CurvePoint> points;
};

/// Images per second over workers: own curves, then controls (`independent`, `single`), then published ones.
std::vector<Curve> throughput_curves(const Sources& sources);
/// Known speed-ups over workers. `single`, which is 1 by definition, is left out.
std::vector<Curve> speedup_curves(const Sources& sources);

/// Number of curves that one chart can hold and stay legible.
inline constexpr size_t kMostCurves = 8;

/// At most kMostCurves: own ones first, but up to half of the room is for published ones of the same
/// networks; other published ones fill the rest. `notes` gets the number of curves left out.
std::vector<Curve> most_telling(std::vector<Curve> curves, std::vector<std::string>& notes);

/// At most `most` runs for charts with a row for each: spread evenly, the last one always among them. Says in
/// `notes` how many were left out.
std::vector<LabelledRun> most_telling(std::vector<LabelledRun> runs, size_t most,
                                      std::vector<std::string>& notes);

}  // namespace lockstep::plots
