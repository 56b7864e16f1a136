#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/StreamGuard.h>

#include "lockstep/replica/accelerator.h"
#include "lockstep/replica/flat_memory.h"
#include "lockstep/replica/memory_use.h"
#include "lockstep/replica/sgd.h"
#include "lockstep/strategies/message_channel.h"
#include "lockstep/strategies/stream_turns.h"

namespace lockstep::strategies {

/// What a worker tells the owner of variables, by a message of this on kNoticeTag: that the gradient of a
/// bucket follows (on kGradientTag), that it wants the values (they come on kValuesTag), or that it has no
/// more steps until the next session.
struct Notice {
  enum Kind : int64_t { kGradient, kFetch, kDone };
  static constexpr int kNoticeTag = 0;
  static constexpr int kGradientTag = 1;
  static constexpr int kValuesTag = 2;

  /// Kind, the bucket, and which of this worker's gradients of that bucket it is, from 0.
  std::array<int64_t, 3> words{};
};

/// The variables that one rank owns, and the thread that serves them to all workers: it applies every
/// gradient when it arrives, on its own, and answers every fetch with the values of that moment. Messages of
/// one worker are served in the order in which they were sent, so a fetch sees the worker's own gradients.
///
/// It serves in sessions: from open() until every other rank has said that it is done; between them nothing
/// is awaited. The thread computes with one thread, and on a GPU in a stream of its own. Functions are for
/// the training thread of the same rank (and autograd's, within a backward pass), which is a worker too, and
/// needs no messages.
class GradientServer {
 public:
  /// `values`: one-dimensional, of all that the rank owns, kept and updated here, where they are. `buckets`:
  /// where in these the gradients of each bucket belong; empty ranges for buckets of other owners.
  /// `accelerator`: whose memory the replica is in, null for the CPU's; it and the channel outlive this, and
  /// the channel is closed after stop(), before this is destroyed.
  GradientServer(MessageChannel& channel, at::Tensor values, std::vector<replica::Range> buckets,
                 const replica::SgdOptions& optimizer, replica::Accelerator* accelerator = nullptr);
  ~GradientServer();

  void open();
  /// Of all gradients that are applied from now on.
  void set_learning_rate(double rate);
  /// A gradient of this rank's own; where it is not on the device of the values, the host waits for it.
  void apply(size_t bucket, int64_t number, const at::Tensor& gradient);
  /// Copies the values for this rank itself.
  void fetch(const at::Tensor& into);
  /// Blocks until every other rank is done, and with it the session.
  void wait_until_done();
  /// Throws what went wrong in the thread.
  void check();
  /// Ends the thread, also within a session.
  void stop();

  struct Counts {
    int64_t applied = 0;
    /// Updates of a bucket between a worker's fetch and the application of the gradient that it computed with
    /// these values: over all gradients, and of the one with the most.
    int64_t staleness_sum = 0;
    int64_t staleness_most = 0;
  };
  Counts counts() const;

  /// The momenta; between sessions.
  void save(replica::State& state) const;
  void restore(const replica::State& state);
  int64_t momentum_bytes() const { return static_cast<int64_t>(momenta_.nbytes()); }
  /// The values that are served, the reply that carries them, and a gradient on arrival.
  int64_t buffer_bytes() const { return replica::storage_bytes({values_, reply_, gradient_}); }

 private:
  void run();
  /// On a GPU, of the thread.
  void enter_stream(std::optional<c10::StreamGuard>& own_stream);
  void serve_session();
  void handle(const Notice& notice, int worker);
  void apply_of(int worker, size_t bucket, int64_t number, const at::Tensor& given);
  void fetch_of(int worker, const at::Tensor& into);
  void wait(comm::Work& work);

  MessageChannel& channel_;
  const std::vector<replica::Range> buckets_;
  replica::Accelerator* const accelerator_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  replica::SgdOptions optimizer_;
  bool open_ = false;
  bool stopping_ = false;
  std::exception_ptr failure_;
  at::Tensor values_, momenta_;
  /// At these two.
  StreamTurns turns_;
  /// The momenta are those of an earlier training.
  bool begun_ = false;
  /// Updates of each bucket.
  std::vector<int64_t> versions_;
  /// [worker][bucket]: the version that it fetched last, and how many of its gradients were applied.
  std::vector<std::vector<int64_t>> fetched_, applied_;
  Counts counts_;

  /// The thread's: what messages are received into and sent from.
  Notice notice_;
  at::Tensor gradient_, reply_;
  std::thread thread_;
};

}  // namespace lockstep::strategies
