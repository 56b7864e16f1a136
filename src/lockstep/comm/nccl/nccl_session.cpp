#include "lockstep/comm/nccl/nccl_session.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

/// The communicators that hold messages, per GPU, in the order in which they began to.
class Holders {
 public:
  static Holders& get() {
    static Holders holders;
    return holders;
  }

  void add(int device, const std::shared_ptr<NcclSession>& session) {
    const std::lock_guard lock(mutex_);
    sessions_[device].push_back(session);
  }

  std::vector<std::shared_ptr<NcclSession>> take(int device) {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<NcclSession>> alive;
    for (const auto& session : std::exchange(sessions_[device], {})) {
      if (auto one = session.lock()) alive.push_back(std::move(one));
    }
    return alive;
  }

 private:
  std::mutex mutex_;
  std::map<int, std::vector<std::weak_ptr<NcclSession>>> sessions_;
};

}  // namespace

NcclSession::NcclSession(std::shared_ptr<NcclLink> link, Duration timeout)
    : Session(fmt::format("rank {} of {} over nccl", link->rank(), link->size()), timeout),
      link_(std::move(link)),
      ready_(link_->device()) {}

std::shared_ptr<NcclSession> NcclSession::create(std::shared_ptr<NcclLink> link, Duration timeout) {
  std::shared_ptr<NcclSession> session(new NcclSession(std::move(link), timeout));
  // Weak: the watch's thread may be left behind, and must not keep the session with it.
  auto failed = [weak = std::weak_ptr(session)](const Failure& failure) {
    if (const auto alive = weak.lock()) alive->break_with(failure);
  };
  session->watch_ = std::make_unique<NcclWatch>(session->link_, std::move(failed));
  return session;
}

template <typename Action>
void NcclSession::or_break(const std::string& what,
                           const std::vector<std::shared_ptr<NcclOperation>>& operations, Action action) {
  try {
    action();
  } catch (...) {
    // The watch ended the call: it knows why.
    for (const auto& operation : operations) {
      if (operation->has_outcome()) operation->Operation::test();
    }
    Failure failure = Failure::from_current_exception();
    failure.what = fmt::format("{} on {}: {}", what, where(), failure.what);
    break_with(failure);
    for (const auto& operation : operations) operation->fail(failure);
    failure.raise();
  }
}

std::shared_ptr<NcclOperation> NcclSession::issue(OperationInfo info, const std::vector<Buffer>& buffers,
                                                  const NcclLink::Call& call) {
  // Held messages come first, in the order of the calls. Before the lock: flush() takes that of every
  // session.
  flush();
  const std::lock_guard issuing(issuing_);
  check_usable();
  const bool is_captured = captured(info.name, buffers);
  auto operation = std::make_shared<NcclOperation>(info);
  put({operation}, buffers, call, is_captured);
  return operation;
}

std::shared_ptr<NcclOperation> NcclSession::hold(OperationInfo info, const Buffer& buffer,
                                                 NcclLink::Call call) {
  const std::lock_guard issuing(issuing_);
  check_usable();
  if (captured(info.name, {buffer})) {
    throw ConfigError(
        fmt::format("{} on {}: messages cannot be captured into a CUDA graph", info.name, where()),
        "send them outside of the graph, or use a collective");
  }
  auto operation = std::make_shared<NcclOperation>(info);
  if (held_.empty()) {
    Holders::get().add(link_->device(), std::static_pointer_cast<NcclSession>(shared_from_this()));
  }
  held_.push_back({operation, buffer, std::move(call)});
  return operation;
}

void NcclSession::flush() {
  for (const auto& session : Holders::get().take(link_->device())) {
    try {
      session->flush_held();
    } catch (...) {
      // The others have recorded their own failure (or_break) and report it to their callers.
      if (session.get() == this) throw;
    }
  }
}

void NcclSession::flush_held() {
  const std::lock_guard issuing(issuing_);
  if (held_.empty()) return;
  const std::vector<Held> held = std::exchange(held_, {});
  std::vector<std::shared_ptr<NcclOperation>> operations;
  std::vector<Buffer> buffers;
  for (const Held& message : held) {
    operations.push_back(message.operation);
    buffers.push_back(message.buffer);
  }
  const NcclLink::Call group = [&](ncclComm_t comm, cudaStream_t stream) {
    return grouped([&](const auto& keep_error) {
      for (const Held& message : held) keep_error(message.call(comm, stream));
    });
  };
  put(operations, buffers, group, false);
}

bool NcclSession::captured(const char* name, const std::vector<Buffer>& buffers) const {
  size_t capturing = 0;
  for (const Buffer& buffer : buffers) {
    if (is_capturing(static_cast<cudaStream_t>(buffer.stream))) ++capturing;
  }
  if (capturing == buffers.size() && capturing > 0) return true;
  // A stream that is captured and one that is not cannot wait for each other. The own stream is part of a
  // capture from an operation's start until the graph's owner has joined it (Work::wait_in_stream).
  if (capturing > 0 || is_capturing(link_->stream())) {
    throw ConfigError(
        fmt::format("{} on {}: a CUDA graph is being captured that this operation is not part of", name,
                    where()),
        "give all buffers of a captured step the stream that is captured; barriers and messages stay "
        "outside");
  }
  return false;
}

void NcclSession::put(const std::vector<std::shared_ptr<NcclOperation>>& operations,
                      const std::vector<Buffer>& buffers, const NcclLink::Call& call, bool is_captured) {
  const OperationInfo& info = operations.front()->info();
  const Deadline deadline = deadline_after(timeout());
  or_break(info.describe(), operations, [&] {
    check_usable();
    // Before the call, which the watch ends when its time is up.
    for (const auto& operation : operations) {
      operation->begin(deadline);
      watch_->add(operation);
    }
    std::vector<void*> streams;
    for (const Buffer& buffer : buffers) {
      if (std::find(streams.begin(), streams.end(), buffer.stream) == streams.end()) {
        streams.push_back(buffer.stream);
      }
    }
    // If these streams are being captured, waiting for them draws the communicator's stream into their graph.
    for (void* stream : streams) {
      ready_.record(static_cast<cudaStream_t>(stream));
      ready_.hold(link_->stream());
    }
    // An operation without data leaves only its end in the stream, in its place among the others.
    if (call) link_->launch(info.name, call);
    auto end = std::make_shared<CudaEvent>(link_->device());
    end->record(link_->stream());
    for (const auto& operation : operations) operation->issued(end, is_captured);
  });
  // The end of a captured operation is a node of the graph: the host cannot ask for it.
  if (is_captured) watch_->watch_graphs();
}

std::shared_ptr<NcclLink> NcclSession::split(bool member, int new_rank, int new_size) {
  // NCCL may hang in a split while anything else is in flight.
  const auto last = issue({"split"}, {}, nullptr);
  hurry(*last);
  const Deadline deadline = deadline_after(timeout());
  std::shared_ptr<NcclLink> part;
  or_break("split", {}, [&] {
    if (!last->wait_until(deadline)) timeout_failure(*last, timeout()).raise();
    const std::lock_guard issuing(issuing_);
    part = link_->split(member, new_rank, new_size, deadline);
  });
  return part;
}

std::shared_ptr<void> NcclSession::allocate(size_t bytes) {
  const std::lock_guard issuing(issuing_);
  check_usable();
  return link_->allocate(bytes);
}

void NcclSession::hurry(NcclOperation& operation) {
  operation.hurry();
  watch_->wake();
}

void NcclSession::shut_down() {
  std::vector<Held> held;
  {
    const std::lock_guard issuing(issuing_);
    held = std::exchange(held_, {});
  }
  // Never issued: the other ranks wait for these messages in vain, as for those in flight.
  bool idle = held.empty();
  try {
    idle = idle && watch_->idle();
  } catch (...) {
    idle = false;
  }
  if (!idle) {
    const Failure failure = destroyed_in_flight();
    break_with(failure);
    for (const Held& message : held) message.operation->fail(failure);
  }
  watch_->stop();
}

}  // namespace lockstep::comm
