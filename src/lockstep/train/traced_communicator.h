#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/measure/phases.h"

namespace lockstep::train {

using measure::CollectiveStamp;

/// Hands everything on to another communicator (owned by the caller, outliving this) and stamps every
/// collective, a barrier as one of no bytes. Used like any communicator.
class TracedCommunicator final : public comm::Communicator {
 public:
  explicit TracedCommunicator(comm::Communicator& real);
  ~TracedCommunicator() override;

  /// The collectives issued since the last call, in order; to be called when all of them are complete.
  std::vector<CollectiveStamp> take_stamps();

  int rank() const override { return real_.rank(); }
  int size() const override { return real_.size(); }
  std::string backend() const override { return real_.backend(); }
  comm::Capabilities capabilities() const override { return real_.capabilities(); }
  comm::WorkPtr all_reduce(const comm::Buffer& buffer, comm::ReduceOp op) override;
  comm::WorkPtr reduce(const comm::Buffer& buffer, comm::ReduceOp op, int root) override;
  comm::WorkPtr broadcast(const comm::Buffer& buffer, int root) override;
  comm::WorkPtr all_gather(const comm::Buffer& input, const comm::Buffer& output) override;
  comm::WorkPtr reduce_scatter(const comm::Buffer& input, const comm::Buffer& output,
                               comm::ReduceOp op) override;
  comm::WorkPtr all_to_all(const comm::Buffer& input, const comm::Buffer& output) override;
  comm::WorkPtr barrier() override;
  comm::WorkPtr send(const comm::Buffer& buffer, int peer, int tag) override {
    return real_.send(buffer, peer, tag);
  }
  comm::WorkPtr receive(const comm::Buffer& buffer, int peer, int tag) override {
    return real_.receive(buffer, peer, tag);
  }
  comm::WorkPtr receive_any(const comm::Buffer& buffer, int tag) override {
    return real_.receive_any(buffer, tag);
  }
  std::unique_ptr<comm::Communicator> split(std::span<const int> ranks) override {
    return real_.split(ranks);
  }
  comm::Duration timeout() const override { return real_.timeout(); }

 private:
  class Stamps;

  template <typename Issue>
  comm::WorkPtr stamp(int64_t bytes, Issue issue);

  comm::Communicator& real_;
  std::shared_ptr<Stamps> stamps_;
};

}  // namespace lockstep::train
