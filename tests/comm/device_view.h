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

  WorkPtr issue(const Collective& collective) override {
    if (collective.kind == Collective::Kind::kBarrier) return real_.issue(collective);
    Collective viewed = collective;
    viewed.input.device = viewed.output.device = DeviceKind::kCuda;
    return real_.issue(viewed);
  }
  WorkPtr post(const Message& message) override {
    Message viewed = message;
    viewed.buffer.device = DeviceKind::kCuda;
    return real_.post(viewed);
  }
  std::unique_ptr<Communicator> split(std::span<const int> ranks) override {
    return view(real_.split(ranks));
  }
  std::unique_ptr<Communicator> duplicate() override { return view(real_.duplicate()); }

 private:
  static std::unique_ptr<Communicator> view(std::unique_ptr<Communicator> part) {
    return part ? std::make_unique<DeviceView>(std::move(part)) : nullptr;
  }

  std::unique_ptr<Communicator> owned_;
};

}  // namespace lockstep::comm
