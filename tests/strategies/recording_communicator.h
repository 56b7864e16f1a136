#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/comm/forwarding_communicator.h"

namespace lockstep::test {

/// One operation that a rank issued. Bytes: of the larger buffer.
struct Call {
  std::string name;
  size_t bytes = 0;

  bool operator==(const Call&) const = default;
};

/// Hands everything on to a real communicator and remembers what was issued, on it (and its duplicates) and
/// on those split from it. The log may be read from any thread.
class RecordingCommunicator final : public comm::ForwardingCommunicator {
 public:
  explicit RecordingCommunicator(std::unique_ptr<comm::Communicator> real)
      : ForwardingCommunicator(*real), owned_(std::move(real)), log_(std::make_shared<Log>()) {}
  explicit RecordingCommunicator(comm::Communicator& real)
      : ForwardingCommunicator(real), log_(std::make_shared<Log>()) {}

  std::vector<Call> calls() const { return copy(log_->calls); }
  std::vector<Call> split_calls() const { return copy(log_->split_calls); }
  std::vector<size_t> all_reduce_bytes() const {
    std::vector<size_t> bytes;
    for (const Call& call : calls()) {
      if (call.name == "all_reduce") bytes.push_back(call.bytes);
    }
    return bytes;
  }
  void forget() {
    const std::lock_guard lock(log_->mutex);
    log_->calls.clear();
    log_->split_calls.clear();
  }

  comm::WorkPtr issue(const comm::Collective& collective) override {
    record(collective.name(), collective.bytes());
    return real_.issue(collective);
  }
  comm::WorkPtr post(const comm::Message& message) override {
    record(message.name(), message.buffer.bytes());
    return real_.post(message);
  }
  std::unique_ptr<comm::Communicator> split(std::span<const int> ranks) override {
    std::unique_ptr<comm::Communicator> part = real_.split(ranks);
    if (part == nullptr) return nullptr;
    return std::unique_ptr<RecordingCommunicator>(new RecordingCommunicator(std::move(part), log_, true));
  }
  std::unique_ptr<comm::Communicator> duplicate() override {
    return std::unique_ptr<RecordingCommunicator>(
        new RecordingCommunicator(real_.duplicate(), log_, is_split_));
  }

 private:
  struct Log {
    std::mutex mutex;
    std::vector<Call> calls;
    std::vector<Call> split_calls;
  };

  RecordingCommunicator(std::unique_ptr<comm::Communicator> other, std::shared_ptr<Log> log, bool is_split)
      : ForwardingCommunicator(*other), owned_(std::move(other)), log_(std::move(log)), is_split_(is_split) {}

  void record(const char* name, size_t bytes) {
    const std::lock_guard lock(log_->mutex);
    (is_split_ ? log_->split_calls : log_->calls).push_back({name, bytes});
  }

  std::vector<Call> copy(const std::vector<Call>& calls) const {
    const std::lock_guard lock(log_->mutex);
    return calls;
  }

  std::unique_ptr<comm::Communicator> owned_;
  std::shared_ptr<Log> log_;
  bool is_split_ = false;
};

}  // namespace lockstep::test
