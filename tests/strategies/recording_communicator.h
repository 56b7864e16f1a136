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

  comm::WorkPtr all_reduce(const comm::Buffer& buffer, comm::ReduceOp op) override {
    record("all_reduce", buffer);
    return real_.all_reduce(buffer, op);
  }
  comm::WorkPtr reduce(const comm::Buffer& buffer, comm::ReduceOp op, int root) override {
    record("reduce", buffer);
    return real_.reduce(buffer, op, root);
  }
  comm::WorkPtr broadcast(const comm::Buffer& buffer, int root) override {
    record("broadcast", buffer);
    return real_.broadcast(buffer, root);
  }
  comm::WorkPtr all_gather(const comm::Buffer& input, const comm::Buffer& output) override {
    record("all_gather", output);
    return real_.all_gather(input, output);
  }
  comm::WorkPtr reduce_scatter(const comm::Buffer& input, const comm::Buffer& output,
                               comm::ReduceOp op) override {
    record("reduce_scatter", input);
    return real_.reduce_scatter(input, output, op);
  }
  comm::WorkPtr all_to_all(const comm::Buffer& input, const comm::Buffer& output) override {
    record("all_to_all", input);
    return real_.all_to_all(input, output);
  }
  comm::WorkPtr barrier() override {
    record("barrier", {});
    return real_.barrier();
  }
  comm::WorkPtr send(const comm::Buffer& buffer, int peer, int tag) override {
    record("send", buffer);
    return real_.send(buffer, peer, tag);
  }
  comm::WorkPtr receive(const comm::Buffer& buffer, int peer, int tag) override {
    record("receive", buffer);
    return real_.receive(buffer, peer, tag);
  }
  comm::WorkPtr receive_any(const comm::Buffer& buffer, int tag) override {
    record("receive_any", buffer);
    return real_.receive_any(buffer, tag);
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

  void record(const char* name, const comm::Buffer& buffer) {
    const std::lock_guard lock(log_->mutex);
    (is_split_ ? log_->split_calls : log_->calls).push_back({name, buffer.bytes()});
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
