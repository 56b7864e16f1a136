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

  WorkPtr issue(const Collective& collective) override;
  WorkPtr post(const Message& message) override;
  std::unique_ptr<Communicator> split(std::span<const int> ranks) override;
  std::unique_ptr<Communicator> duplicate() override;

 private:
  std::unique_ptr<Communicator> view(std::unique_ptr<Communicator> part) const;

  std::unique_ptr<Communicator> owned_;
  const int device_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace lockstep::comm
