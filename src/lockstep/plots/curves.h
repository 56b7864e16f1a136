#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/plots/sources.h"

namespace lockstep::plots {

/// Something that tells a run from others, as a column of a table has it ("bucket", "1 MB") and as a label
/// has it
/// ("buckets of 1 MB"). Both texts are empty where it does not concern the run.
struct LabelPart {
  std::string head;
  std::string text;
  std::string phrase;
};

/// A run of one of the records, with what tells it from the others.
struct LabelledRun {
  const results::Run* run = nullptr;
  size_t record = 0;
  /// What it is without its number of ranks: "ddp, bf16", with the record's name where there are several.
  std::string label;
  /// What the label is made of; the same heads for all runs that were labelled together.
  std::vector<LabelPart> parts = {};
  /// Equal for runs that differ in their number of ranks only.
  std::string curve;
  bool control = false;
};

/// All runs of all records in their order, labelled by what varies among them and by nothing else. Pointers
/// into `sources`.
std::vector<LabelledRun> labelled_runs(const Sources& sources);

/// The label with the number of ranks: "ddp, 8 ranks".
std::string with_ranks(const LabelledRun& run);

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
  /// Of own runs and controls.
  std::string strategy;
  Kind kind = Kind::kOwn;
  std::vector<CurvePoint> points;
};

/// Images per second over workers: own curves, then controls (`independent`, `single`), then published ones.
std::vector<Curve> throughput_curves(const Sources& sources);
/// Speed-ups over workers, as far as they are known. `single` is one by definition and left out.
std::vector<Curve> speedup_curves(const Sources& sources);

/// The most curves that one chart shows legibly.
inline constexpr size_t kMostCurves = 8;

/// At most kMostCurves: own ones first, then the published ones of the same models, then the others. Says in
/// `notes` how many were left out.
std::vector<Curve> most_telling(std::vector<Curve> curves, std::vector<std::string>& notes);

/// At most `most` runs for charts with a row for each: spread evenly, the last one always among them. Says in
/// `notes` how many were left out.
std::vector<LabelledRun> most_telling(std::vector<LabelledRun> runs, size_t most,
                                      std::vector<std::string>& notes);

/// The interval of the rate of a run: images_per_s times the ratio of its median step to the bounds of that
/// median's interval.
std::optional<std::pair<double, double>> throughput_interval(const results::Run& run);

}  // namespace lockstep::plots
