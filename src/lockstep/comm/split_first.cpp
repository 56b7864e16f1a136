#include "lockstep/comm/split_first.h"

#include <numeric>
#include <vector>

namespace lockstep::comm {

std::unique_ptr<Communicator> split_first(Communicator& group, int count) {
  std::vector<int> ranks(static_cast<size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return group.split(ranks);
}

std::unique_ptr<Communicator> Communicator::duplicate() {
  return split_first(*this, size());
}

}  // namespace lockstep::comm
