#include "lockstep/train/rows/gather.h"

namespace lockstep::train {

std::vector<strategies::Measured> combine_measured(std::vector<strategies::Measured> own, size_t steps,
                                                   comm::Communicator* group) {
  using Over = strategies::Measured::Over;
  if (own.empty()) return own;
  const size_t count = own.size();
  // Each value times its weight, then the weights; and the values once more, for the most.
  std::vector<double> sums(2 * count), most(count);
  for (size_t i = 0; i < count; ++i) {
    const strategies::Measured& measured = own[i];
    const double weight = measured.over == Over::kSteps ? static_cast<double>(steps) : measured.weight;
    sums[i] = measured.over == Over::kMean ? measured.value * weight : measured.value;
    sums[count + i] = weight;
    most[i] = measured.value;
  }
  if (group != nullptr) {
    group->all_reduce(comm::host_buffer(sums.data(), sums.size()), comm::ReduceOp::kSum)->wait();
    group->all_reduce(comm::host_buffer(most.data(), most.size()), comm::ReduceOp::kMax)->wait();
  }
  for (size_t i = 0; i < count; ++i) {
    strategies::Measured& measured = own[i];
    measured.weight = sums[count + i];
    switch (measured.over) {
      case Over::kSteps:
      case Over::kMean:
        measured.value = measured.weight > 0 ? sums[i] / measured.weight : 0;
        break;
      case Over::kJob:
        measured.value = sums[i];
        break;
      case Over::kMost:
        measured.value = most[i];
        break;
    }
  }
  return own;
}

}  // namespace lockstep::train
