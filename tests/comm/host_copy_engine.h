#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/comm/staging/copy_engine.h"

namespace lockstep::comm {

/// A queue of work that a thread of its own carries out in order: what a stream is to a GPU.
class HostStream {
 public:
  HostStream();
  ~HostStream();

  void run(std::function<void()> task);

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::thread thread_;
};

/// For tests: a copy engine whose device is the host, with lanes and streams that are as asynchronous as a
/// GPU's. A stream is a HostStream, or null for one that is always done.
class HostCopyEngine final : public CopyEngine {
 public:
  std::shared_ptr<std::byte> host_memory(size_t bytes) override;
  MarkPtr mark_stream(void* stream) override;
  MarkPtr mark_lane(Lane lane) override;
  void hold_lane(Lane lane, const Mark& mark) override;
  void copy(Lane lane, void* to, size_t to_pitch_bytes, const void* from, size_t from_pitch_bytes,
            size_t row_bytes, size_t rows) override;
  void wait(const Mark& mark) override;
  bool reached(const Mark& mark) override;

 private:
  HostStream& lane(Lane lane) { return lane == Lane::kOut ? out_ : in_; }

  HostStream out_;
  HostStream in_;
};

}  // namespace lockstep::comm
