#include "subgroups.h"

#include "lockstep/comm/split_first.h"

namespace lockstep::cli {

std::vector<int> powers_of_two_up_to(int most) {
  std::vector<int> powers;
  for (int ranks = 1; ranks <= most; ranks *= 2) powers.push_back(ranks);
  return powers;
}

Subgroups::Subgroups(const JobLinks& links, const std::vector<train::RowPlan>& rows)
    : all_data_(links.data.get()) {
  for (const train::RowPlan& row : rows) {
    if (control_.contains(row.ranks)) continue;
    control_[row.ranks] = comm::split_first(*links.control, row.ranks);
    // NCCL keeps memory of every GPU for each communicator: no second one of the same ranks.
    if (all_data_ == nullptr || row.ranks == all_data_->size()) continue;
    data_[row.ranks] = comm::split_first(*all_data_, row.ranks);
  }
}

train::RankGroup Subgroups::of(const train::RowPlan& row) const {
  const bool alone = train::training_ranks(row) == 1 && !train::traits_of(row).communicates;
  if (alone) return {};
  comm::Communicator* control = control_.at(row.ranks).get();
  if (all_data_ == nullptr) return control;
  return {control, row.ranks == all_data_->size() ? all_data_ : data_.at(row.ranks).get()};
}

}  // namespace lockstep::cli
