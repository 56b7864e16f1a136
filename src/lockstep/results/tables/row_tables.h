#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/results/record/run_record.h"
#include "lockstep/results/tables/document.h"

namespace lockstep::results {

/// Rows that belong in one table: the same model, batch and settings, so that they differ only in ranks and
/// strategy.
struct RowTable {
  /// "resnet50 with batch size 8 per rank, bf16": names the settings in which other tables differ.
  std::string title;
  /// Without a strategy first, then strategies in the order of the record by ascending ranks, `independent`
  /// last. A control is in every table that it fits. Never empty.
  std::vector<const Run*> rows;
};

/// Pointers into `record`. Rows that differ only in the setting `merged` ("input") share a table.
std::vector<RowTable> row_tables(const RunRecord& record, std::string_view merged = "");

/// Settings in which the runs differ, but for the strategy. Settings of communication count if the runs
/// that communicate differ in them.
std::vector<const Setting*> varied_settings(const std::vector<const Run*>& runs);
/// ", bf16, buckets of 1 MiB": the members of `varied` that concern the run.
std::string settings_text(const Run& run, const std::vector<const Setting*>& varied);

/// The cell with " ?" where the run is in doubt; "-" stays.
std::string marked(const Run& run, std::string cell);

/// "412.1"; "-" for a row without a rate, such as one that ended within its warm-up.
std::string images_per_s_text(const Run& run, int digits);
/// "1.84" and "1.84 ±0.07", "92.1 ±3.5 %": with half the width of the 95 % interval where there is one, and
/// marked() where they cannot be true; "-" for an unknown value.
std::string speedup_text(const Run& run);
std::string speedup_with_interval(const Run& run);
std::string efficiency_with_interval(const Run& run);

/// A column of a table with one row per run.
struct RunColumn {
  Table::Column column;
  std::function<Cell(const Run&)> cell;
};

/// Columns that name a run in a table whose title has the rest.
std::vector<RunColumn> ranks_and_strategy();

/// A row for each run: the cells of `names`, then those of `columns`.
Table run_table(const std::vector<const Run*>& rows, const std::vector<RunColumn>& columns,
                const std::vector<RunColumn>& names = ranks_and_strategy());

/// For each RowTable of `record` a heading and a table of the runs that satisfy `has`, then `remarks`. Empty
/// where no run does. `heading` has "{0}" for the title of the rows, "{1}" for their input, "{2}" for their
/// unit.
Document grouped_tables(const RunRecord& record, const std::function<bool(const Run&)>& has,
                        std::string_view heading,
                        const std::function<Table(const std::vector<const Run*>&)>& table,
                        const std::vector<Remark>& remarks = {});

/// "no ddp" for a run without a strategy, as PyTorch's benchmark prints it.
std::string strategy_text(const Run& run);

/// "3.14", or "-" where there is no value or it is not finite.
std::string fixed_text(const std::optional<double>& value, int digits);

/// "94.1 %", or "-".
std::string percent_text(const std::optional<double>& share, int digits = 1);

/// The 95 % interval of images/s as half its width ("±1.4 %"), or in a word the reason why there is none
/// (short, few, trend, shift, unsettled); "-" where the record has neither.
std::string uncertainty_text(const Run& run);
/// Explains the words that occur in these rows: "short: too few independent steps; trend: ..."; may be
/// empty.
std::string uncertainty_reasons(const std::vector<const Run*>& rows);

/// Images/s of each launch of the rows that have too few for an interval over launches: "ddp at 2 ranks 61.2,
/// 67.8; ..."; may be empty.
std::string few_launches_text(const std::vector<const Run*>& rows);

/// Digits after the point that leave three or more of the smallest rate.
int rate_digits(double least);
int rate_digits(const std::vector<const Run*>& rows);

/// The settings that a sweep may vary beside model, batch and ranks.
inline std::vector<std::reference_wrapper<const Setting>> attributes() {
  std::vector<std::reference_wrapper<const Setting>> found;
  for (const Setting& setting : kSettings) {
    if (setting.is_attribute()) found.emplace_back(setting);
  }
  return found;
}

/// The attributes whose text is not the same for all of these runs.
std::vector<const Setting*> varying(const std::vector<const Run*>& runs);

/// All runs of a model and batch (of a rank or of the whole job), in the order of the record.
struct ModelGroup {
  std::string model;
  /// The first run's; under strong scaling the others have other batches per rank.
  int batch_per_rank = 0;
  /// 0: weak scaling.
  int global_batch = 0;
  /// Runs of the strategies that were asked for, and those that are there to be compared with.
  std::vector<const Run*> runs;
  std::vector<const Run*> controls;
};

/// "batch size 32 per rank", or "global batch size 64" under strong scaling; "unknown batch size".
std::string batch_text(const Run& run, bool per_rank = false);

/// Pointers into `record`.
std::vector<ModelGroup> group_by_model(const RunRecord& record);

/// Runs that differ in nothing but their number of ranks, in the order of their first one, each by ascending
/// ranks.
std::vector<std::vector<const Run*>> group_by_attributes(const std::vector<const Run*>& runs);

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
