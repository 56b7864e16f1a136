#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/plots/sources.h"

namespace lockstep::plots {

/// A setting that tells runs apart: as a column of a table ("bucket", "1 MiB") and as a part of a label
/// ("buckets of 1 MiB"). Both texts are empty for a run that it does not concern.
struct LabelPart {
  std::string head;
  std::string text;
  std::string phrase;
};

/// A run of one of the records, and its label among all runs.
struct LabelledRun {
  const results::Run* run = nullptr;
  size_t record = 0;
  /// Everything but the number of ranks: "ddp, bf16", and the record's name if there are several.
  std::string label;
  /// Parts of the label; runs that were labelled together have the same heads.
  std::vector<LabelPart> parts = {};
  /// Key of the curve: equal for runs that differ only in their number of ranks.
  std::string curve;
  bool control = false;
};

/// All runs of all records in their order, labelled by the settings that vary among them. Pointers into
/// `records`.
std::vector<LabelledRun> labelled_runs(std::span<const NamedRecord> records);
inline std::vector<LabelledRun> labelled_runs(const Sources& sources) {
  return labelled_runs(sources.records);
}

/// The speed-up that a published run states, otherwise the one that follows from the rates.
std::optional<double> shown_speedup(const results::Run& run);

/// The label with the number of ranks: "ddp, 8 ranks".
std::string with_ranks(const LabelledRun& run);

/// The runs of each network, in the order of the networks' first runs; within a network as they were,
/// controls of a file last.
std::vector<std::vector<LabelledRun>> by_network(const std::vector<LabelledRun>& runs);

/// As with_ranks, without the network: for charts that name it above its rows.
std::string with_ranks_only(const LabelledRun& run);

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
/// networks; other published ones fill what is left. Says in `notes` how many were left out.
std::vector<Curve> most_telling(std::vector<Curve> curves, std::vector<std::string>& notes);

/// At most `most` runs for charts with a row for each: spread evenly, the last one always among them. Says in
/// `notes` how many were left out.
std::vector<LabelledRun> most_telling(std::vector<LabelledRun> runs, size_t most,
                                      std::vector<std::string>& notes);

}  // namespace lockstep::plots
