#pragma once

#include <string>
#include <vector>

#include "lockstep/results/record/run_record.h"

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

}  // namespace lockstep::results
