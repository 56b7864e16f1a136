#pragma once

#include <memory>
#include <string>

#include <gloo/transport/device.h>
#include <sys/types.h>

#include "lockstep/comm/operation.h"
#include "lockstep/comm/store.h"

namespace lockstep::comm {

/// One rank's TCP endpoint: its address and Gloo's thread that moves its bytes.
class GlooDevice {
 public:
  /// Collective over the ranks that share `store` and `prefix`. Listens on `interface`, an address or the
  /// name of a network interface; if that is empty, on loopback when all ranks are on one host, else on the
  /// address that the host name resolves to.
  GlooDevice(Store& store, const std::string& prefix, int rank, int size, const std::string& interface,
             Deadline deadline);

  std::shared_ptr<gloo::transport::Device>& device() { return device_; }

  /// Processor seconds of that thread; 0 if it was not found.
  double cpu_s() const;

 private:
  std::shared_ptr<gloo::transport::Device> device_;
  pid_t loop_thread_ = -1;
};

/// Time left until `deadline`, at least `least`.
Duration time_left(Deadline deadline, Duration least = Duration(0.001));

}  // namespace lockstep::comm
