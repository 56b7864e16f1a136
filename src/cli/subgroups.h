#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/train/rows/rank_group.h"
#include "lockstep/train/rows/sweep.h"

#include "job_links.h"

namespace lockstep::cli {

/// Long enough for any row; a rank that dies meanwhile is noticed by the watch.
constexpr std::chrono::duration<double> kUntilRowEnds{30.0 * 24 * 3600};

/// 1, 2, 4, ...
std::vector<int> powers_of_two_up_to(int most);

/// The subgroups of a sweep: the first N ranks for every N that a row needs. Made in one go, because every
/// rank of the job takes part in making each.
class Subgroups {
 public:
  /// Collective over `links`, which outlive this.
  Subgroups(const JobLinks& links, const std::vector<train::RowPlan>& rows);

  /// Of nobody where the row needs none. The ranks of the row may ask.
  train::RankGroup of(const train::RowPlan& row) const;

 private:
  std::map<int, std::unique_ptr<comm::Communicator>> control_;
  /// Empty where `control_` carries everything.
  std::map<int, std::unique_ptr<comm::Communicator>> data_;
  /// Of all ranks that rows need.
  comm::Communicator* all_data_;
};

}  // namespace lockstep::cli
