#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "lockstep/comm/forwarding_communicator.h"
#include "lockstep/measure/phases.h"
#include "lockstep/replica/accelerator.h"
#include "lockstep/train/step/step_clock.h"

namespace lockstep::train {

using measure::CollectiveStamp;

/// Hands everything on to another communicator (owned by the caller, outliving this) and stamps every
/// collective, a barrier as one of no bytes; those of its duplicates too, as lanes of their own. Used like
/// any communicator. What is put into a GPU's queues is stamped there: when the stream of the step came to
/// it, and when it was done.
class TracedCommunicator final : public comm::ForwardingCommunicator {
 public:
  explicit TracedCommunicator(comm::Communicator& real);
  ~TracedCommunicator() override;

  /// From now on the buffers are on this GPU, null: on the CPU. Before anybody duplicates this, or issues
  /// anything that is to be stamped there.
  void stamp_on(std::shared_ptr<replica::Accelerator> accelerator);

  /// Collectives that were issued and not taken.
  size_t issued() const;
  /// The oldest `count` of them, in order; to be called when they are complete, and where that is a GPU's
  /// affair, when it has come to the end of the step.
  std::vector<CollectiveStamp> take_stamps(size_t count, const StepClock& clock);
  /// All of them, on the CPU.
  std::vector<CollectiveStamp> take_stamps();
  /// They are of no interest.
  void forget_stamps();

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
