#pragma once

#include <memory>

#include <cuda_runtime_api.h>

#include "lockstep/comm/forwarding_communicator.h"

namespace lockstep::comm {

/// For tests: takes host memory, and carries out every operation in memory of a GPU: copied there in a stream
/// in which the operation's data becomes ready, and back when the operation is complete.
class GpuMemoryView final : public ForwardingCommunicator {
 public:
  GpuMemoryView(std::unique_ptr<Communicator> real, int device);
  ~GpuMemoryView() override;

  WorkPtr all_reduce(const Buffer& buffer, ReduceOp op) override;
  WorkPtr reduce(const Buffer& buffer, ReduceOp op, int root) override;
  WorkPtr broadcast(const Buffer& buffer, int root) override;
  WorkPtr all_gather(const Buffer& input, const Buffer& output) override;
  WorkPtr reduce_scatter(const Buffer& input, const Buffer& output, ReduceOp op) override;
  WorkPtr all_to_all(const Buffer& input, const Buffer& output) override;
  WorkPtr send(const Buffer& buffer, int peer, int tag) override;
  WorkPtr receive(const Buffer& buffer, int peer, int tag) override;
  WorkPtr receive_any(const Buffer& buffer, int tag) override;
  std::unique_ptr<Communicator> split(std::span<const int> ranks) override;
  std::unique_ptr<Communicator> duplicate() override;

 private:
  std::unique_ptr<Communicator> view(std::unique_ptr<Communicator> part) const;

  std::unique_ptr<Communicator> owned_;
  const int device_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace lockstep::comm
