#pragma once

#include <memory>
#include <string>

#include <gloo/transport/device.h>
#include <sys/types.h>

#include "lockstep/comm/operation.h"
#include "lockstep/comm/store.h"

namespace lockstep::comm {

/// The TCP end of one rank: its address and the thread that moves its bytes.
class GlooDevice {
 public:
  /// Collective over the ranks that share `store` and `prefix`. Loopback when all are on one host; else
  /// `interface`, an address or the name of a network interface; when that is empty, the address that the
  /// host name resolves to.
  GlooDevice(Store& store, const std::string& prefix, int rank, int size, const std::string& interface,
             Deadline deadline);

  std::shared_ptr<gloo::transport::Device>& device() { return device_; }

  /// Processor seconds of the thread that moves the bytes.
  double cpu_s() const;

 private:
  std::shared_ptr<gloo::transport::Device> device_;
  pid_t loop_thread_ = -1;
};

/// The time left, at least `least`.
Duration time_left(Deadline deadline, Duration least = Duration(0.001));

}  // namespace lockstep::comm
