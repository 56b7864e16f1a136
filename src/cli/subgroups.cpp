#include "subgroups.h"

namespace lockstep::cli {

std::vector<int> powers_of_two_up_to(int most) {
  std::vector<int> powers;
  for (int ranks = 1; ranks <= most; ranks *= 2) powers.push_back(ranks);
  return powers;
}

Subgroups::Subgroups(comm::Communicator& world, const std::vector<train::RowPlan>& rows) {
  for (const train::RowPlan& row : rows) {
    if (groups_.contains(row.ranks)) continue;
    std::vector<int> ranks(static_cast<size_t>(row.ranks));
    for (int i = 0; i < row.ranks; ++i) ranks[static_cast<size_t>(i)] = i;
    groups_[row.ranks] = world.split(ranks);
  }
}

comm::Communicator* Subgroups::of(const train::RowPlan& row) const {
  const bool alone = train::training_ranks(row) == 1 && !train::traits_of(row).communicates;
  return alone ? nullptr : groups_.at(row.ranks).get();
}

}  // namespace lockstep::cli
