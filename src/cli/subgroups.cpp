#include "subgroups.h"

#include "lockstep/comm/split_first.h"

namespace lockstep::cli {

std::vector<int> powers_of_two_up_to(int most) {
  std::vector<int> powers;
  for (int ranks = 1; ranks <= most; ranks *= 2) powers.push_back(ranks);
  return powers;
}

Subgroups::Subgroups(comm::Communicator& world, const std::vector<train::RowPlan>& rows) {
  for (const train::RowPlan& row : rows) {
    if (groups_.contains(row.ranks)) continue;
    groups_[row.ranks] = comm::split_first(world, row.ranks);
  }
}

comm::Communicator* Subgroups::of(const train::RowPlan& row) const {
  const bool alone = train::training_ranks(row) == 1 && !train::traits_of(row).communicates;
  return alone ? nullptr : groups_.at(row.ranks).get();
}

}  // namespace lockstep::cli
