#pragma once

#include <string>
#include <vector>

#include "lockstep/plots/published.h"
#include "lockstep/results/record/run_record.h"

namespace lockstep::plots {

/// A record, and what it is called where several are shown together.
struct NamedRecord {
  std::string name;
  results::RunRecord record;
};

/// What is drawn: the user's own records, and published tables beside them. Either may be empty.
struct Sources {
  std::vector<NamedRecord> records;
  std::vector<PublishedTable> published;
};

/// What to call files: their names without folder and ending where those differ, the paths as given where
/// not.
std::vector<std::string> display_names(const std::vector<std::string>& paths);

/// Speed-ups and efficiencies filled in where a record came without any (results::assign_baselines).
void complete(Sources& sources);

}  // namespace lockstep::plots
