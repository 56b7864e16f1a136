#include "lockstep/train/rows/rank_group.h"

namespace lockstep::train {

void RankGroup::on_rank_0_alone(const std::string& name, const std::function<void()>& work) const {
  const std::string key = keys + name;
  if (rank() == 0) {
    work();
    if (store != nullptr) store->set(key, "done");
  } else if (store != nullptr) {
    store->get(key, kUntilRowEnds);
  }
}

}  // namespace lockstep::train
