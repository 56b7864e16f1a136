#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "lockstep/comm/forwarding_communicator.h"
#include "lockstep/comm/stoppable_wait.h"
#include "lockstep/replica/accelerator.h"
#include "lockstep/replica/flat_memory.h"
#include "lockstep/replica/memory_use.h"
#include "lockstep/replica/sgd.h"

namespace lockstep::strategies {

/// A communicator of the same ranks as another one, on which two threads of a rank may start operations at
/// the same time.
class MessageChannel final : public comm::ForwardingCommunicator {
 public:
  /// Collective over `group`.
  explicit MessageChannel(comm::Communicator& group) : MessageChannel(group.split_first(group.size())) {}

  comm::WorkPtr issue(const comm::Collective& collective) override {
    const std::lock_guard lock(mutex_);
    return real_.issue(collective);
  }
  comm::WorkPtr post(const comm::Message& message) override {
    const std::lock_guard lock(mutex_);
    return real_.post(message);
  }

  /// Abandons the operations in flight. No other function may be called afterwards.
  void close() { group_.reset(); }

 private:
  explicit MessageChannel(std::unique_ptr<comm::Communicator> group)
      : ForwardingCommunicator(*group), group_(std::move(group)) {}

  std::unique_ptr<comm::Communicator> group_;
  std::mutex mutex_;
};

/// Orders the streams of several threads that use the same GPU memory in turn: work enqueued between begin()
/// and end() runs after the work of the turn before. Does nothing on the CPU. The caller ensures that only
/// one thread has a turn at a time.
class StreamTurns {
 public:
  explicit StreamTurns(at::Device device) : device_(device) {}

  void begin() {
    if (last_) last_->block(current_stream());
  }

  void end() {
    if (!device_.is_cuda()) return;
    if (!last_) last_.emplace(device_.type());
    last_->record(current_stream());
  }

 private:
  c10::Stream current_stream() const {
    return c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  }

  at::Device device_;
  std::optional<c10::Event> last_;
};

/// A message of a worker to an owner of variables, on kNoticeTag: the gradient of a bucket follows (on
/// kGradientTag), the worker requests the values (they are sent on kValuesTag), or the worker has no more
/// steps in this session.
struct Notice {
  enum Kind : int64_t { kGradient, kFetch, kDone };
  static constexpr int kNoticeTag = 0;
  static constexpr int kGradientTag = 1;
  static constexpr int kValuesTag = 2;

  /// Kind, bucket, and number (from 0) of this worker's gradient for that bucket.
  std::array<int64_t, 3> words{};
};

/// The variables that one rank owns, and the thread that serves them to all workers. It applies every
/// gradient when it arrives and answers every fetch with the current values. Messages of one worker are
/// served in the order in which they were sent, so a fetch sees all earlier gradients of that worker.
///
/// It serves in sessions: from open() until every other rank has sent kDone. Between sessions it receives
/// nothing. The thread computes without OpenMP, and on a GPU in a stream of its own. The public functions are
/// for the training thread of the same rank (and autograd's, during a backward pass), which is a worker too,
/// but without messages.
class GradientServer {
 public:
  /// `values`: all variables that the rank owns, one-dimensional; updated in place. `buckets`: the range of
  /// `values` for the gradients of each bucket; empty for buckets of other owners. `accelerator`: the
  /// replica's GPU, null for the CPU. It and the channel must outlive this; the channel must be closed after
  /// stop() and before the destructor.
  GradientServer(MessageChannel& channel, at::Tensor values, std::vector<replica::Range> buckets,
                 const replica::SgdOptions& optimizer, replica::Accelerator* accelerator = nullptr);
  ~GradientServer();

  void open();
  /// For all gradients that are applied from now on.
  void set_learning_rate(double rate);
  /// Applies a gradient of this rank. If it is not on the values' device, the host waits for the copy.
  void apply(size_t bucket, int64_t number, const at::Tensor& gradient) {
    apply_of(channel_.rank(), bucket, number, gradient);
  }
  /// Copies the values for this rank itself.
  void fetch(const at::Tensor& into) { fetch_of(channel_.rank(), into); }
  /// Blocks until every other rank has sent kDone.
  void wait_until_done();
  /// Throws the error of the thread, if it failed.
  void check();
  /// Stops the thread, even within a session.
  void stop();

  struct Counts {
    int64_t applied = 0;
    /// Staleness of a gradient: the number of updates of its bucket between the fetch with which it was
    /// computed and its application. The sum over all gradients, and the maximum.
    int64_t staleness_sum = 0;
    int64_t staleness_most = 0;
  };
  Counts counts() const;

  /// Save and restore the momenta. Call between sessions.
  void save(replica::State& state) const;
  void restore(const replica::State& state);
  int64_t momentum_bytes() const { return static_cast<int64_t>(momenta_.nbytes()); }
  /// Size of the values, of the reply with a copy of them, and of the received gradient.
  int64_t buffer_bytes() const { return replica::storage_bytes({values_, reply_, gradient_}); }

 private:
  void run();
  /// Makes the training thread's allocations wait for this thread's stream as well.
  void begin_in(c10::Stream stream);
  void serve_session();
  void handle(const Notice& notice, int worker);
  void apply_of(int worker, size_t bucket, int64_t number, const at::Tensor& given);
  void fetch_of(int worker, const at::Tensor& into);
  void wait(comm::Work& work);

  MessageChannel& channel_;
  const std::vector<replica::Range> buckets_;
  replica::Accelerator* const accelerator_;

  /// Its mutex guards everything here.
  const std::shared_ptr<comm::StopPoint> point_ = std::make_shared<comm::StopPoint>();
  replica::SgdOptions optimizer_;
  bool open_ = false;
  std::exception_ptr failure_;
  at::Tensor values_, momenta_;
  /// For values_ and momenta_.
  StreamTurns turns_;
  /// Whether the momenta were restored, so that no bucket is at its first step.
  bool begun_ = false;
  /// Number of updates of each bucket.
  std::vector<int64_t> versions_;
  /// [worker][bucket]: the version at its last fetch, and the number of its gradients that were applied.
  std::vector<std::vector<int64_t>> fetched_, applied_;
  Counts counts_;

  /// Buffers for messages, used by the thread only.
  Notice notice_;
  at::Tensor gradient_, reply_;
  std::thread thread_;
};

}  // namespace lockstep::strategies
