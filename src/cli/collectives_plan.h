#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lockstep/collectives/measure.h"
#include "lockstep/collectives/record.h"
#include "lockstep/plots/frame.h"
#include "lockstep/results/tables/document.h"
#include "lockstep/train/job/job_plan.h"
#include "lockstep/train/job/run_job.h"

namespace lockstep::cli {

/// The measurements of one backend; the same on all its ranks.
struct CollectivesPlan {
  train::JobPlan job;
  collectives::Pacing pacing;
  /// Those of one number of ranks one after the other.
  std::vector<collectives::Row> rows;
};

/// Lines of --dry-run: what would be measured.
std::string plan_text(const std::vector<CollectivesPlan>& plans);

/// The work of one rank. `keep` is called on rank 0 with what was measured so far. Collective over the job.
void measure_collectives(const CollectivesPlan& plan, const train::JobRank& rank,
                         const std::function<void(const collectives::Record&)>& keep);

/// A table for each series, in nccl-tests' columns, with the links below; "row" and "rows" of imports too.
results::Document collectives_tables(const collectives::Record& record);
/// Rows that both have, side by side.
results::Document collectives_diff(const collectives::Record& base, const collectives::Record& test);

/// A file's name and its rows.
struct NamedCollectives {
  std::string name;
  collectives::Record record;
};

/// The charts of collectives: "transfer_time" and "bandwidth".
std::vector<std::string> collectives_charts();
/// The chart of one of these names: a line for each series over the size.
plots::Chart collectives_chart(const std::string& name, const std::vector<NamedCollectives>& records,
                               const plots::ChartForm& form);
/// A page of both charts and the tables.
std::string collectives_page(const std::vector<NamedCollectives>& records);

}  // namespace lockstep::cli
