#pragma once

#include <memory>

#include "lockstep/comm/forwarding_communicator.h"

namespace lockstep::comm {

/// For tests over HostCopyEngine: calls the host memory that it is given a device's, and so sends it through
/// staging.
class DeviceView final : public ForwardingCommunicator {
 public:
  explicit DeviceView(std::unique_ptr<Communicator> real)
      : ForwardingCommunicator(*real), owned_(std::move(real)) {}

  WorkPtr all_reduce(const Buffer& buffer, ReduceOp op) override {
    return real_.all_reduce(on_device(buffer), op);
  }
  WorkPtr reduce(const Buffer& buffer, ReduceOp op, int root) override {
    return real_.reduce(on_device(buffer), op, root);
  }
  WorkPtr broadcast(const Buffer& buffer, int root) override {
    return real_.broadcast(on_device(buffer), root);
  }
  WorkPtr all_gather(const Buffer& input, const Buffer& output) override {
    return real_.all_gather(on_device(input), on_device(output));
  }
  WorkPtr reduce_scatter(const Buffer& input, const Buffer& output, ReduceOp op) override {
    return real_.reduce_scatter(on_device(input), on_device(output), op);
  }
  WorkPtr all_to_all(const Buffer& input, const Buffer& output) override {
    return real_.all_to_all(on_device(input), on_device(output));
  }
  WorkPtr send(const Buffer& buffer, int peer, int tag) override {
    return real_.send(on_device(buffer), peer, tag);
  }
  WorkPtr receive(const Buffer& buffer, int peer, int tag) override {
    return real_.receive(on_device(buffer), peer, tag);
  }
  WorkPtr receive_any(const Buffer& buffer, int tag) override {
    return real_.receive_any(on_device(buffer), tag);
  }
  std::unique_ptr<Communicator> split(std::span<const int> ranks) override {
    return view(real_.split(ranks));
  }
  std::unique_ptr<Communicator> duplicate() override { return view(real_.duplicate()); }

 private:
  static Buffer on_device(Buffer buffer) {
    buffer.device = DeviceKind::kCuda;
    return buffer;
  }
  static std::unique_ptr<Communicator> view(std::unique_ptr<Communicator> part) {
    return part ? std::make_unique<DeviceView>(std::move(part)) : nullptr;
  }

  std::unique_ptr<Communicator> owned_;
};

}  // namespace lockstep::comm
