#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/measure/compare.h"
#include "lockstep/results/record/run_record.h"
#include "lockstep/results/tables/document.h"
#include "lockstep/results/tables/row_tables.h"

namespace lockstep::results {

/// A setting in which all rows of one file differ from all rows of another.
struct SettingChange {
  std::string name;
  std::string base;
  std::string test;
};

struct MatchedRow {
  const Run* base;
  const Run* test;
};

/// Differences between two records beside those of rows that belong together. Points into the records.
struct RecordDifferences {
  /// Settings that were apparently changed on purpose; empty if matched rows have the same settings.
  std::vector<SettingChange> changes;
  std::vector<const Run*> only_base;
  std::vector<const Run*> only_test;
  /// Unfinished rows (Run::unfinished), which match nothing.
  std::vector<const Run*> unfinished_base;
  std::vector<const Run*> unfinished_test;
};

struct RowMatching : RecordDifferences {
  /// In the order of `base`.
  std::vector<MatchedRow> rows;
};

/// Rows belong together when they are the same row: model, batch, ranks, image size, and every setting that
/// either file sweeps. A setting that has one value throughout `base` and another one throughout `test`
/// (buckets of 25 MiB against 1 MiB, bf16 against fp32) does not keep rows apart: it is the object of the
/// comparison, and stands in `changes`. `single` and `independent` rows stay among themselves, and know
/// neither backend nor bucket size. Settings that a file lacks (files of PyTorch's benchmark have few) count
/// as equal.
///
/// Recorded trainings are the same where both have one name, or gradients of the same sizes, and no two
/// batches are known and differ. `as_same`: they are, whatever the records say.
RowMatching match_rows(const RunRecord& base, const RunRecord& test, bool as_same = false);

struct DiffOptions {
  /// A row that is slower by less than this share is no regression, however certain.
  double threshold = 0.02;
  /// Launch i of one file ran next to launch i of the other.
  bool paired = false;
  /// The percentile of the step time whose change is the verdict of a row: 50, 75, 90, 95 or 99.
  int decisive = 75;
  /// Of every interval, and of the verdicts of all rows together.
  double confidence = 0.95;
  /// Recorded trainings are compared even if nothing says that they are the same.
  bool as_same = false;
};

/// One fact on how the two files were measured.
struct HeaderEntry {
  std::string name;
  std::string base;
  std::string test;
  /// The values differ, and not only because every run has its own (the time of its start).
  bool differs = false;
  /// Concerns the device: a GPU, its driver, its libraries.
  bool of_device = false;
};

/// The change of one percentile of a row's step time.
struct PercentileChange {
  int percentile = 75;
  /// False if a launch has too few steps for it; `comparison` then holds no times.
  bool known = true;
  measure::Comparison comparison;
};

struct DiffRow {
  const Run* base = nullptr;
  const Run* test = nullptr;
  int base_launches = 1;
  int test_launches = 1;
  /// One per Diff::percentiles.
  std::vector<PercentileChange> changes;
  /// Verdict by DiffOptions::decisive, corrected for the number of rows.
  measure::Comparison verdict;
  /// Of the mean step, corrected likewise; without times for pooled ranks and other batches.
  measure::Comparison mean;
  /// The interval excluded "no change", but only before the correction.
  bool corrected_away = false;

  /// Whether the mean rate changes by the threshold or more and the verdict does not say so, or the verdict
  /// says a change that the mean rate does not have.
  bool mean_disagrees() const;
  /// Whether the mean rate alone tells that the sides differ.
  bool only_mean_differs() const { return mean_disagrees() && mean.differs() && !verdict.differs(); }
  bool is_regression() const { return verdict.is_regression() || (mean_disagrees() && mean.is_regression()); }

  /// The launch is the unit, so that the verdict holds for the next launch too.
  bool over_launches() const { return base_launches > 1 && test_launches > 1; }
  /// Launches can be compared in pairs.
  bool has_pairs() const { return base_launches == test_launches && base_launches >= 3; }
};

/// Differences between two records. Points into both.
struct Diff : RecordDifferences {
  DiffOptions options;
  /// Entries that differ first.
  std::vector<HeaderEntry> header;
  /// Percentiles that a row shows, ascending; the decisive one is among them.
  std::vector<int> percentiles;
  std::vector<DiffRow> rows;
  /// Both sides have several launches that did not alternate: a drift of the machine appears as a change.
  bool one_after_the_other = false;

  int regressions() const;
  /// Number of rows with two launches or more on both sides.
  int rows_over_launches() const;
  /// Those of them with steps enough for the decisive percentile: a gate looks at no others.
  int judged_rows() const;
  /// Whether each row that has the decisive percentile is certain, so that more launches would decide
  /// nothing.
  bool is_certain() const;
};

/// Compares the rows of two records that belong together (docs/measuring.md, "Comparison of two runs"). One
/// percentile carries the verdict, so that a row is one test and Holm's correction counts each row once; the
/// intervals of all percentiles are as they would be alone. The mean is judged likewise beside it, since a
/// few long steps change it alone. A file of PyTorch's benchmark pools the samples of ranks that move
/// together: its percentiles are compared as its own diff.py does, and no interval is given where there are
/// several ranks. Throws ConfigError when no row is common, or none of which it is known.
Diff compare_records(const RunRecord& base, const RunRecord& test, const DiffOptions& options = {});

/// "lenet5 ddp at 2 ranks, bf16": a name that is unique in `diff`, without the settings that the two
/// sides are compared for.
std::string row_label(const DiffRow& row, const Diff& diff);

/// The comparison for a reader: how each file was measured, entries that differ first and marked; a table per
/// network and setting with a row per number of ranks; the basis of the verdicts; rows that only one file
/// has; and how many rows changed. At most 100 columns wide on a terminal.
Document diff_tables(const Diff& diff);

/// The comparison in a few sentences: how many rows changed, and each row's change.
Document verdicts(const NamedRecord& base, const NamedRecord& test);

/// Why a comparison in turns ended.
enum class TurnsEnd { kCertain, kMostLaunches, kMaxTime, kInterrupted, kFailed };

/// A comparison in turns that has ended: base, test, test, base, ...
struct Turns {
  TurnsEnd end = TurnsEnd::kCertain;
  /// Launches of each side.
  size_t pairs = 0;
  /// Interim tests that the comparison could have made (measure::LookPlan).
  size_t looks = 1;
  double elapsed_s = 0;
};

/// The comparison for a reader: for every row the rate of each launch in its order, the rates of both sides,
/// their ratio with its interval, and the verdict in a sentence; then how it ended. `diff` is paired, has the
/// confidence of a single look, and as many launches on both sides as `turns` says. Rates are those of the
/// decisive percentile of the step time.
Document compare_tables(const Diff& diff, const Turns& turns);

}  // namespace lockstep::results
