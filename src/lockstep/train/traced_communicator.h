#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "lockstep/comm/forwarding_communicator.h"
#include "lockstep/measure/phases.h"

namespace lockstep::train {

using measure::CollectiveStamp;

/// Hands everything on to another communicator (owned by the caller, outliving this) and stamps every
/// collective, a barrier as one of no bytes; those of its duplicates too, as lanes of their own. Used like
/// any communicator.
class TracedCommunicator final : public comm::ForwardingCommunicator {
 public:
  explicit TracedCommunicator(comm::Communicator& real);
  ~TracedCommunicator() override;

  /// The collectives issued since the last call, in order; to be called when all of them are complete.
  std::vector<CollectiveStamp> take_stamps();

  comm::WorkPtr all_reduce(const comm::Buffer& buffer, comm::ReduceOp op) override;
  comm::WorkPtr reduce(const comm::Buffer& buffer, comm::ReduceOp op, int root) override;
  comm::WorkPtr broadcast(const comm::Buffer& buffer, int root) override;
  comm::WorkPtr all_gather(const comm::Buffer& input, const comm::Buffer& output) override;
  comm::WorkPtr reduce_scatter(const comm::Buffer& input, const comm::Buffer& output,
                               comm::ReduceOp op) override;
  comm::WorkPtr all_to_all(const comm::Buffer& input, const comm::Buffer& output) override;
  comm::WorkPtr barrier() override;
  std::unique_ptr<comm::Communicator> duplicate() override;

 private:
  class Stamps;

  TracedCommunicator(std::unique_ptr<comm::Communicator> real, std::shared_ptr<Stamps> stamps);

  template <typename Issue>
  comm::WorkPtr stamp(int64_t bytes, Issue issue);

  /// Null for what the caller owns.
  std::unique_ptr<comm::Communicator> owned_;
  /// The duplicates', too.
  std::shared_ptr<Stamps> stamps_;
  int lane_;
};

}  // namespace lockstep::train
