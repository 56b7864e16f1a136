#include "lockstep/comm/lane_keeper.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

namespace lockstep::comm {

struct LaneKeeper::Lanes {
  std::mutex mutex;
  /// Communicators that are not lent, by the order in which they were made. The first is lent first: what is
  /// left over depends on how many were lent, not on the order in which they came back.
  std::map<int, std::unique_ptr<Communicator>> kept;
  int made = 0;
};

/// A communicator that is lent.
class LaneKeeper::Lane final : public ForwardingCommunicator {
 public:
  Lane(std::unique_ptr<Communicator> lane, int number, std::shared_ptr<Lanes> home)
      : ForwardingCommunicator(*lane), lane_(std::move(lane)), number_(number), home_(std::move(home)) {}

  ~Lane() override {
    // Operations that were abandoned in it have to fail, here and on the other ranks.
    if (!lane_->idle()) return;
    const std::lock_guard lock(home_->mutex);
    home_->kept[number_] = std::move(lane_);
  }

  void run(const Collective& collective) override { real_.run(collective); }

  /// One from the home, or a new one. `make` is collective.
  template <typename Make>
  static std::unique_ptr<Communicator> lend(const std::shared_ptr<Lanes>& home, const Make& make) {
    {
      const std::lock_guard lock(home->mutex);
      if (!home->kept.empty()) {
        auto first = home->kept.extract(home->kept.begin());
        return std::make_unique<Lane>(std::move(first.mapped()), first.key(), home);
      }
    }
    std::unique_ptr<Communicator> made = make();
    return std::make_unique<Lane>(std::move(made), home->made++, home);
  }

 private:
  std::unique_ptr<Communicator> lane_;
  const int number_;
  const std::shared_ptr<Lanes> home_;
};

LaneKeeper::LaneKeeper(std::unique_ptr<Communicator> real)
    : ForwardingCommunicator(*real),
      owned_(std::move(real)),
      duplicates_(std::make_shared<Lanes>()),
      splits_(std::make_shared<Lanes>()) {}

LaneKeeper::~LaneKeeper() {
  drop_kept();
}

std::unique_ptr<Communicator> LaneKeeper::split(std::span<const int> ranks) {
  if (std::ssize(ranks) != size()) return real_.split(ranks);
  return Lane::lend(splits_, [&] { return real_.split(ranks); });
}

std::unique_ptr<Communicator> LaneKeeper::duplicate() {
  return Lane::lend(duplicates_, [&] { return real_.duplicate(); });
}

void LaneKeeper::drop_kept() {
  for (const auto& lanes : {duplicates_, splits_}) {
    const std::lock_guard lock(lanes->mutex);
    lanes->kept.clear();
  }
}

}  // namespace lockstep::comm
