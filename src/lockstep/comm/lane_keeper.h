#pragma once

#include <memory>
#include <span>

#include "lockstep/comm/forwarding_communicator.h"

namespace lockstep::comm {

/// Owns a communicator and keeps the ones of all its ranks that are made from it, by duplicate() or split():
/// when one is destroyed with nothing in flight, it is lent to the next who asks. Strategies come and go with
/// every run of a row, and each connection of a new communicator to another rank costs a descriptor and round
/// trips. Ranks ask in the same order, and so get the same ones.
class LaneKeeper final : public ForwardingCommunicator {
 public:
  explicit LaneKeeper(std::unique_ptr<Communicator> real);
  ~LaneKeeper() override;

  void run(const Collective& collective) override { real_.run(collective); }
  std::unique_ptr<Communicator> split(std::span<const int> ranks) override;
  std::unique_ptr<Communicator> duplicate() override;

  /// Destroys those that are not lent. Every rank calls it between the same two calls of the above.
  void drop_kept();

 private:
  struct Lanes;
  class Lane;

  const std::unique_ptr<Communicator> owned_;
  /// Shared with those that are lent, which may outlive this.
  std::shared_ptr<Lanes> duplicates_;
  std::shared_ptr<Lanes> splits_;
};

}  // namespace lockstep::comm
