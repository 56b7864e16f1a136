#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/results/record/run_record.h"

namespace lockstep::results {

/// A record, and its name beside others.
struct NamedRecord {
  std::string name;
  RunRecord record;
};

/// A speed-up that was predicted, with the interval that holds 90 %; finite and positive.
struct Forecast {
  int ranks = 1;
  double speedup = 0, low = 0, high = 0;
};

/// Input of a page or a chart: the user's own records, and published ones beside them. Either may be empty.
struct Sources {
  std::vector<NamedRecord> records;
  std::vector<NamedRecord> published;
  /// Each goes on from a run of the records, the first entry, by rising ranks.
  std::vector<std::vector<Forecast>> forecasts = {};
};

/// Names for files, each another one: without folder and ending where these names differ, otherwise the paths
/// as given.
std::vector<std::string> display_names(const std::vector<std::string>& paths);

/// Whether there is no run of the user's own, but some that others published.
bool all_published(std::span<const NamedRecord> records);

/// Whether there are files of `lockstep train`, and no others.
bool all_trainings(std::span<const NamedRecord> records);

/// Fills in speed-ups and efficiencies of records that came without any (assign_baselines). Without own
/// records, published ones take their place.
void complete(Sources& sources);

/// A run of one of the records, and its label among all runs.
struct LabelledRun {
  const Run* run = nullptr;
  size_t record = 0;
  bool control = false;
  /// Everything but the number of ranks that varies among the runs: "resnet50, ddp, bf16", and the record's
  /// name if there are several.
  std::string label;
  /// The same without the network.
  std::string label_in_network;
  /// Key of the curve: equal for runs of a record that differ only in their number of ranks. Labels of
  /// different curves differ.
  std::string curve;
};

/// All runs of all records in their order, labelled by the settings that vary among them, publications each
/// by itself. Pointers into `records`. Curves across a setting, in place of ranks, differ in their number of
/// ranks and not in the setting.
std::vector<LabelledRun> labelled_runs(std::span<const NamedRecord> records, const Setting* across = nullptr);
inline std::vector<LabelledRun> labelled_runs(const Sources& sources) {
  return labelled_runs(sources.records);
}

/// The label with the number of ranks: "ddp, 8 ranks".
std::string with_ranks(const LabelledRun& run);
/// The same without the network, for charts that name it above its rows.
std::string with_ranks_only(const LabelledRun& run);

/// The highest peak of any rank in bytes; 0: not known.
int64_t peak_memory_bytes(const Run& run);

/// Unit of the rates of a page's own runs, or of all runs of a record: "image"; "unit" where they differ.
std::string unit_of(const Sources& sources);

/// The speed-up that a published run states, otherwise the one that follows from the rates.
std::optional<double> shown_speedup(const Run& run);

}  // namespace lockstep::results
