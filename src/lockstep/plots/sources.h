#pragma once

#include <string>
#include <vector>

#include "lockstep/results/record/run_record.h"

namespace lockstep::plots {

/// A record, and its name beside others.
struct NamedRecord {
  std::string name;
  results::RunRecord record;
};

/// Input of a page or a chart: the user's own records, and published ones beside them. Either may be empty.
struct Sources {
  std::vector<NamedRecord> records;
  std::vector<NamedRecord> published;
};

/// Names for files: without folder and ending where these names differ, otherwise the paths as given.
std::vector<std::string> display_names(const std::vector<std::string>& paths);

/// Fills in speed-ups and efficiencies of records that came without any (results::assign_baselines). Without
/// own records, published ones take their place.
void complete(Sources& sources);

}  // namespace lockstep::plots
