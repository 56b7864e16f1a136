#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "lockstep/replica/accelerator.h"

namespace lockstep::test {

/// For tests of what a GPU's queue does to a step: the CPU computes at once, but the stream is a thread that
/// comes to each mark after the work that was put in before it. What is recorded is done anew by each launch.
class HostAccelerator final : public replica::Accelerator {
 public:
  HostAccelerator();
  ~HostAccelerator() override;

  /// Work of the stream that takes so long.
  void busy(double seconds);
  /// The most marks that were in the stream at a time.
  size_t most_marks() const;
  int recordings() const { return recordings_; }
  /// Calls of seconds_between.
  int times_asked() const { return times_asked_; }

  at::Device device() const override { return at::Device(at::kCPU); }
  void enter_thread() override {}
  void* stream() const override { return nullptr; }
  MarkPtr mark() override;
  void wait(const Mark& mark) override;
  double seconds_between(const Mark& from, const Mark& to) override;
  void synchronize() override;
  at::Tensor pinned(at::IntArrayRef shape, at::ScalarType dtype) override;
  std::unique_ptr<replica::RecordedWork> record(const std::function<void()>& work) override;
  int64_t peak_memory_bytes() const override { return 0; }
  void reset_peak_memory() override {}
  void release_unused_memory() override {}

 private:
  void put(std::function<void()> task);
  void work();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  size_t marks_ = 0;
  size_t most_marks_ = 0;
  int recordings_ = 0;
  int times_asked_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace lockstep::test
