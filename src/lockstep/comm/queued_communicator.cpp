#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lockstep/comm/argument_checks.h"
#include "lockstep/comm/helper_thread.h"
#include "lockstep/comm/progress_queue.h"
#include "lockstep/comm/session.h"
#include "lockstep/comm/staging/copy_engine.h"
#include "lockstep/comm/transport.h"

namespace lockstep::comm {
namespace {

/// A transport and the queue of its collectives.
class QueuedSession final : public Session {
 public:
  using Task = std::function<void(Transport&, Deadline)>;

  static std::shared_ptr<QueuedSession> create(std::shared_ptr<Transport> transport, Duration timeout) {
    auto session = std::make_shared<QueuedSession>(std::move(transport), timeout);
    // Weak: a thread that was left behind keeps the handler, and must not keep the session with it.
    auto failed = [weak = std::weak_ptr<Session>(session)](const Failure& failure) {
      if (const auto alive = weak.lock()) alive->break_with(failure);
    };
    session->queue_ = std::make_unique<ProgressQueue>("ls-comm", std::move(failed));
    return session;
  }

  QueuedSession(std::shared_ptr<Transport> transport, Duration timeout)
      : Session(
            fmt::format("rank {} of {} over {}", transport->rank(), transport->size(), transport->backend()),
            timeout),
        transport_(std::move(transport)) {}

  Transport& transport() { return *transport_; }

  /// Carries out `task` after everything submitted before. Throws when the communicator is unusable.
  WorkPtr submit(OperationInfo info, Task task) {
    check_usable();
    auto operation = std::make_shared<Operation>(info);
    // The task holds what it uses rather than the session: it may be left behind with its thread.
    queue_->push(operation, [transport = transport_, task = std::move(task), timeout = timeout(), info,
                             where = where()] { carry_out(*transport, task, timeout, info, where); });
    return std::make_unique<OperationWork>(std::move(operation), shared_from_this());
  }

  /// Carries out the collective in this thread; false, having done nothing, if something is in flight before
  /// it. Throws its failure.
  bool run_here(const Collective& collective) {
    const bool done = queue_->run_here([this, &collective] {
      // Blocked in the progress thread, too: a library may write to a connection that was closed.
      std::optional<SigpipeBlock> no_sigpipe;
      if (!collective.arrived) no_sigpipe.emplace();
      carry_out(
          *transport_, [&](Transport& to, Deadline by) { to.run(collective, by); }, timeout(),
          info_of(collective), where());
    });
    // The collective's, unless another thread has made the communicator fail before.
    if (done) raise_failure();
    return done;
  }

  WorkPtr start(const Message& message) {
    check_usable();
    try {
      return std::make_unique<OperationWork>(transport_->start(message, deadline_after(timeout())),
                                             shared_from_this());
    } catch (...) {
      break_with(Failure::from_current_exception());
      throw;
    }
  }

  bool idle() const { return queue_->idle() && transport_->messages_idle(); }

  /// Abandons what is in flight and ends the progress thread.
  void shut_down() {
    if (!idle()) break_with(destroyed_in_flight());
    // In this order: the queue's thread uses the transport.
    queue_->stop();
    transport_->close();
  }

 private:
  /// Runs `task`, with the operation and its rank before the text of a failure.
  template <typename Run>
  static void carry_out(Transport& transport, const Run& task, Duration timeout, const OperationInfo& info,
                        const std::string& where) {
    try {
      task(transport, deadline_after(timeout));
    } catch (...) {
      Failure failure = Failure::from_current_exception();
      failure.what = fmt::format("{} on {}: {}", info.describe(), where, failure.what);
      failure.raise();
    }
  }

  void abandon(const Failure& failure) override {
    queue_->fail_all(failure);
    transport_->abort(failure);
  }
  double own_cpu_s() const override { return queue_->cpu_s(); }
  double shared_cpu_s() const override { return transport_->helper_cpu_s(); }

  const std::shared_ptr<Transport> transport_;
  std::unique_ptr<ProgressQueue> queue_;
};

class QueuedCommunicator final : public Communicator {
 public:
  QueuedCommunicator(std::shared_ptr<Transport> transport, Duration timeout)
      : session_(QueuedSession::create(std::move(transport), timeout)),
        checks_(rank(), size(), capabilities(), session_->where()) {}

  ~QueuedCommunicator() override { session_->shut_down(); }

  int rank() const override { return session_->transport().rank(); }
  int size() const override { return session_->transport().size(); }
  std::string backend() const override { return session_->transport().backend(); }
  Capabilities capabilities() const override { return session_->transport().capabilities(); }
  bool idle() const override { return session_->usable() && session_->idle(); }
  Duration timeout() const override { return session_->timeout(); }
  double progress_thread_cpu_s() const override { return session_->cpu_s(); }

  WorkPtr issue(const Collective& collective) override {
    prepare(collective);
    return session_->submit(info_of(collective),
                            [collective](Transport& to, Deadline by) { to.run(collective, by); });
  }

  void run(const Collective& collective) override {
    prepare(collective);
    const bool here = collective.arrived || session_->transport().keeps_deadline(collective);
    if (here && session_->run_here(collective)) return;
    session_
        ->submit(info_of(collective), [collective](Transport& to, Deadline by) { to.run(collective, by); })
        ->wait();
  }

  WorkPtr post(const Message& message) override {
    checks_.check(message);
    return session_->start(message);
  }

  std::unique_ptr<Communicator> split(std::span<const int> ranks) override {
    checks_.check_split(ranks);
    // Shared with the task, which outlives this call if the wait times out.
    auto part = std::make_shared<std::shared_ptr<Transport>>();
    const std::vector<int> members(ranks.begin(), ranks.end());
    session_->submit({"split"}, [=](Transport& to, Deadline by) { *part = to.split(members, by); })->wait();
    // A transport has at least two ranks.
    if (members == std::vector{rank()}) {
      return make_solo_communicator(backend(), timeout(), session_->transport().copy_engine());
    }
    if (!*part) return nullptr;
    return make_communicator(std::move(*part), timeout());
  }

  std::unique_ptr<Communicator> duplicate() override {
    std::unique_ptr<Communicator> other = Communicator::duplicate();
    session_->add_duplicate(static_cast<const QueuedCommunicator&>(*other).session_);
    return other;
  }

 private:
  void prepare(const Collective& collective) {
    checks_.check(collective);
    // Checked before the transport marks streams for a collective that would never run.
    session_->check_usable();
    session_->transport().issuing(collective);
  }

  const std::shared_ptr<QueuedSession> session_;
  const ArgumentChecks checks_;
};

}  // namespace

std::unique_ptr<Communicator> make_communicator(std::shared_ptr<Transport> transport, Duration timeout) {
  return std::make_unique<QueuedCommunicator>(std::move(transport), timeout);
}

std::unique_ptr<Communicator> connect_transport(
    std::shared_ptr<Transport> (*connect)(const ConnectOptions& options), const ConnectOptions& options) {
  if (options.cuda_device < 0) return make_communicator(connect(options), options.timeout);
  // The engine first: without one there is no reason to meet the others.
  std::shared_ptr<CopyEngine> engine = open_copy_engine(options.cuda_device);
  return make_communicator(make_staged_transport(connect(options), std::move(engine)), options.timeout);
}

}  // namespace lockstep::comm
