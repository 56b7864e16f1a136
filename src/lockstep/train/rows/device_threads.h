#pragma once

#include <barrier>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace lockstep::train {

/// The threads of several devices in one process. The thread that makes it is device 0; each further device
/// gets one that lasts as long as this, bound to processors of its own, and computing with as many threads as
/// device 0. Between runs they sleep. Used by the thread of device 0.
class DeviceThreads {
 public:
  /// `cpus`: of each device; where it has none, or the list is shorter, a thread is not bound.
  DeviceThreads(int devices, const std::vector<std::vector<int>>& cpus);
  ~DeviceThreads();
  DeviceThreads(const DeviceThreads&) = delete;
  DeviceThreads& operator=(const DeviceThreads&) = delete;

  int devices() const { return static_cast<int>(threads_.size()) + 1; }

  /// Runs body(device) for all devices at the same time and returns when all have. Throws the first device's
  /// exception of those that threw.
  void run(const std::function<void(int device)>& body);

 private:
  void work(int device, const std::vector<int>& cpus, int threads);
  void run_one(int device);

  /// All devices meet at the begin and at the end of a run.
  std::barrier<> begin_;
  std::barrier<> end_;
  /// Null when a run begins: the threads are to end.
  const std::function<void(int)>* body_ = nullptr;
  /// By device.
  std::vector<std::exception_ptr> errors_;
  std::vector<std::thread> threads_;
};

}  // namespace lockstep::train
