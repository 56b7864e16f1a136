#pragma once

#include <string>
#include <vector>

#include "lockstep/measure/compare.h"
#include "lockstep/results/record/row_matching.h"
#include "lockstep/results/record/run_record.h"

namespace lockstep::results {

struct DiffOptions {
  /// A row that is slower by less than this share is no regression, however certain.
  double threshold = 0.02;
  /// Launch i of both files ran next to each other.
  bool paired = false;
  /// The percentile of the step time whose change is the verdict of a row: 50, 75, 90, 95 or 99.
  int decisive = 75;
};

/// One thing that the two files say of how they were measured.
struct HeaderEntry {
  std::string name;
  std::string base;
  std::string test;
  /// Worth a mark: not alike, and not bound to be so as the time of the start is.
  bool differs = false;
  /// Says what computes: a GPU, its driver, its libraries.
  bool of_device = false;
};

/// The change of one percentile of a row's step time.
struct PercentileChange {
  int percentile = 75;
  /// False: a launch has too few steps for it, and `comparison` holds no times.
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
  /// That of DiffOptions::decisive, corrected for the number of rows.
  measure::Comparison verdict;
  /// The interval excludes no change, but that did not survive the correction.
  bool corrected_away = false;

  /// The launch is the unit, so that the verdict holds for the next launch too.
  bool over_launches() const { return base_launches > 1 && test_launches > 1; }
};

/// What differs between two records. Points into both.
struct Diff {
  DiffOptions options;
  /// Entries that differ first.
  std::vector<HeaderEntry> header;
  /// Settings in which all rows differ (match_rows).
  std::vector<SettingChange> changes;
  /// Those that a row shows, ascending; the decisive one among them.
  std::vector<int> percentiles;
  std::vector<DiffRow> rows;
  std::vector<const Run*> only_base;
  std::vector<const Run*> only_test;

  int regressions() const;
  /// Rows that could be found to be regressions: two launches or more on both sides.
  int rows_over_launches() const;
};

/// Compares the rows of two records that belong together (docs/measuring.md, "Comparison of two runs"). One
/// percentile carries the verdict, so that a row is one test and Holm's correction counts each row once; the
/// intervals of all percentiles are as they would be alone. A file of PyTorch's benchmark pools the samples
/// of ranks that move together: its percentiles are compared as its own diff.py does, and no interval is
/// given where there are several ranks. Throws ConfigError when no row is common.
Diff compare_records(const RunRecord& base, const RunRecord& test, const DiffOptions& options = {});

/// All that the records say of how they were measured, entries that differ first.
std::vector<HeaderEntry> compare_headers(const RunRecord& base, const RunRecord& test);

/// 0.02 of "2%", "2 %" or "0.02". Throws ConfigError for anything else, "2" among it, which could be either.
double parse_threshold(const std::string& text);

}  // namespace lockstep::results
