#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "lockstep/comm/types.h"

namespace lockstep::comm {

using Duration = std::chrono::duration<double>;

/// An operation in progress. Any thread may wait for it. Destroying it neither cancels the operation nor
/// communicates; the buffers must stay alive until the operation is complete.
class Work {
 public:
  virtual ~Work() = default;

  /// Whether the operation is complete; never blocks. Throws what wait would throw.
  virtual bool test() = 0;

  /// Blocks, without polling, until the operation is complete. Throws TimeoutError after `timeout`, CommError
  /// or PeerLostError when the operation failed; the communicator is unusable after any of these.
  virtual void wait(Duration timeout) = 0;

  /// Waits for at most the communicator's own time-out.
  virtual void wait() = 0;

  /// Makes work queued on `stream` (a cudaStream_t of the GPU that holds the buffers) from now on start after
  /// the operation. A backend that works in the GPU's queues (nccl) does not block the host here, and reports
  /// a failure later, from test(), wait() or the communicator's next call; the others wait(). The only way to
  /// wait for an operation that was issued while its stream was being captured into a CUDA graph.
  virtual void wait_in_stream([[maybe_unused]] void* stream) { wait(); }

  /// Calls `done` once when the operation is complete or has failed (test() throws the failure): from
  /// the communicator's progress thread, or right here if it is complete already. `done` must be short and
  /// must not wait for communication. At most one callback per Work.
  virtual void on_complete(std::function<void()> done) = 0;

  /// The sending rank of a completed receive_any; -1 for every other operation.
  virtual int source() const { return -1; }
};

using WorkPtr = std::unique_ptr<Work>;

/// Returns a Work that is complete once `real` is complete, or has failed, and `last` has run. `last` runs
/// once, on the thread on which Work::on_complete calls back, whether or not anybody keeps the result. Uses
/// up `real`'s only callback; the result takes another one, which runs after `last`.
WorkPtr followed_by(WorkPtr real, std::function<void()> last);

/// Abilities of a backend; anything beyond them is refused with a ConfigError that names the backend.
struct Capabilities {
  bool cpu_buffers = true;
  bool cuda_buffers = false;
  bool receive_any = true;
  /// Whether messages are matched by tag and may overtake collectives. If not, all operations of a
  /// communicator form one sequence: two ranks issue their messages to each other, and the collectives, in
  /// the same order.
  bool message_tags = true;
  /// Whether operations on GPU memory go into the GPU's queues, where a stream waits for them without the
  /// host (Work::wait_in_stream), and can be recorded into a CUDA graph.
  bool gpu_queues = false;
};

/// Properties of a kind of collective, for code that treats all kinds alike: argument checks, staging,
/// tracing.
struct CollectiveTraits {
  enum class Ranks : uint8_t { kAll, kRoot, kAllButRoot };

  const char* name = "";
  /// Input and output are one buffer.
  bool in_place = false;
  /// Ranks whose input is read, and ranks that get the output.
  Ranks readers = Ranks::kAll;
  Ranks writers = Ranks::kAll;
  /// Whether the buffer holds one part per rank.
  bool input_parts = false;
  bool output_parts = false;

  constexpr bool rooted() const { return readers != Ranks::kAll || writers != Ranks::kAll; }
};

/// In the order of Collective::Kind.
inline constexpr CollectiveTraits kCollectiveTraits[] = {
    {.name = "all_reduce", .in_place = true},
    {.name = "reduce", .in_place = true, .writers = CollectiveTraits::Ranks::kRoot},
    {.name = "broadcast",
     .in_place = true,
     .readers = CollectiveTraits::Ranks::kRoot,
     .writers = CollectiveTraits::Ranks::kAllButRoot},
    {.name = "all_gather", .output_parts = true},
    {.name = "reduce_scatter", .input_parts = true},
    {.name = "all_to_all", .input_parts = true, .output_parts = true},
    {.name = "barrier"}};

/// One operation of all ranks of a communicator, as a value. The named functions of Communicator build it and
/// document each kind.
struct Collective {
  enum class Kind : uint8_t {
    kAllReduce,
    kReduce,
    kBroadcast,
    kAllGather,
    kReduceScatter,
    kAllToAll,
    kBarrier
  };

  Kind kind = Kind::kBarrier;
  /// The same buffer twice for kinds that work in place; empty for a barrier.
  Buffer input{};
  Buffer output{};
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
  /// Time on the steady clock at which this rank was ready for it, where it is issued later; 0: when issued.
  double ready_s = 0;
  /// All ranks are ready, as after a barrier, the calling thread has SIGPIPE blocked, and run() may leave the
  /// deadline to whoever watches this process: a library's blocking call then needs no wait before it and no
  /// thread of its own.
  bool arrived = false;

  constexpr const CollectiveTraits& traits() const { return kCollectiveTraits[static_cast<size_t>(kind)]; }
  const char* name() const { return traits().name; }
  /// Size of the larger buffer.
  size_t bytes() const { return std::max(input.bytes(), output.bytes()); }
};

/// One end of a point-to-point message, as a value.
struct Message {
  enum class Kind : uint8_t { kSend, kReceive, kReceiveAny };

  Kind kind = Kind::kSend;
  Buffer buffer{};
  /// -1 for kReceiveAny.
  int peer = -1;
  int tag = 0;

  const char* name() const {
    return kind == Kind::kSend ? "send" : kind == Kind::kReceive ? "receive" : "receive_any";
  }
};

/// Communication among a group of ranks. One object per rank; used by one thread of that rank at a time.
///
/// Collectives are asynchronous and complete in the order in which they were issued; every rank issues the
/// same ones, with the same count, dtype, operation and root, in the same order. Point-to-point messages are
/// ordered per (peer, tag) and independent of the collectives (but see Capabilities::message_tags). GPU
/// memory is accessed after the work that its buffer's stream held when the operation was issued; other
/// streams must wait for the Work before they touch it. Results of a reduction are the same bits on every
/// rank. A failure or time-out is fatal to the communicator, and destroying it then does not communicate.
/// Operations in flight when a communicator is destroyed are abandoned: they fail, here and on the other
/// ranks.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The backend's name: "thread", "gloo", "mpi", "nccl".
  virtual std::string backend() const = 0;
  virtual Capabilities capabilities() const = 0;

  /// Collective. Starts the operation; the named functions below are shorthands. Throws ConfigError for
  /// arguments that are wrong on this rank alone.
  virtual WorkPtr issue(const Collective& collective) = 0;

  /// Collective. As issue() and then wait(), faster: where nothing is in flight and the backend keeps the
  /// time-out by itself, in the calling thread, without waking the progress thread. May meet an issue() of
  /// other ranks.
  virtual void run(const Collective& collective) { issue(collective)->wait(); }

  /// Collective. buffer: in and out, the reduction over all ranks on every rank.
  WorkPtr all_reduce(const Buffer& buffer, ReduceOp op) {
    return issue({Collective::Kind::kAllReduce, buffer, buffer, op});
  }
  /// Collective. buffer: in; out on `root` only, undefined contents elsewhere.
  WorkPtr reduce(const Buffer& buffer, ReduceOp op, int root) {
    return issue({Collective::Kind::kReduce, buffer, buffer, op, root});
  }
  /// Collective. buffer: in on `root`, out elsewhere.
  WorkPtr broadcast(const Buffer& buffer, int root) {
    return issue({Collective::Kind::kBroadcast, buffer, buffer, ReduceOp::kSum, root});
  }
  /// Collective. output.count = size() * input.count; rank r's input ends up at [r * input.count, ...).
  /// input may be the rank's own part of output.
  WorkPtr all_gather(const Buffer& input, const Buffer& output) {
    return issue({Collective::Kind::kAllGather, input, output});
  }
  /// Collective. input.count = size() * output.count; rank r gets the reduction of all ranks' r-th parts.
  /// output may be the rank's own part of input. The contents of input are undefined afterwards.
  WorkPtr reduce_scatter(const Buffer& input, const Buffer& output, ReduceOp op) {
    return issue({Collective::Kind::kReduceScatter, input, output, op});
  }
  /// Collective. input.count = output.count, a multiple of size(); rank r's part s goes to part r of rank s.
  /// The two must not overlap.
  WorkPtr all_to_all(const Buffer& input, const Buffer& output) {
    return issue({Collective::Kind::kAllToAll, input, output});
  }
  /// Collective. Complete when every rank has issued it.
  WorkPtr barrier() { return issue({Collective::Kind::kBarrier}); }

  /// Starts one end of a message; the named functions below are shorthands. Throws ConfigError.
  virtual WorkPtr post(const Message& message) = 0;

  /// peer: another rank. tag in [0, 2^20). Complete when `buffer` may be used again, which may take until the
  /// peer receives.
  WorkPtr send(const Buffer& buffer, int peer, int tag) {
    return post({Message::Kind::kSend, buffer, peer, tag});
  }
  /// The message must have exactly buffer.bytes() bytes, else CommError.
  WorkPtr receive(const Buffer& buffer, int peer, int tag) {
    return post({Message::Kind::kReceive, buffer, peer, tag});
  }
  /// Receives from the first rank that sends with this tag; Work::source() is its number.
  WorkPtr receive_any(const Buffer& buffer, int tag) {
    return post({Message::Kind::kReceiveAny, buffer, -1, tag});
  }

  /// Collective over this communicator. `ranks`: ascending, the same on all ranks. A new communicator of
  /// those ranks in that order, numbered from 0; null on ranks that are not among them. It may outlive this
  /// one.
  virtual std::unique_ptr<Communicator> split(std::span<const int> ranks) = 0;
  /// Collective. split() with the first `count` ranks.
  std::unique_ptr<Communicator> split_first(int count);

  /// Collective. A communicator of the same ranks whose operations do not wait for this one's: a second lane
  /// for the same traffic, so a wrapper that observes or changes operations does so on the duplicate too. It
  /// may outlive this one. By default a split with all ranks.
  virtual std::unique_ptr<Communicator> duplicate();

  /// Memory of this communicator's GPU from and to which it transfers fastest: nccl's own, registered with
  /// the network and the other GPUs. Null where there is none. Release it before the communicator, when no
  /// work on the GPU needs it any more or waits for another rank: that waits for the GPU.
  virtual std::shared_ptr<void> allocate([[maybe_unused]] size_t bytes) { return nullptr; }

  /// Whether nothing is in flight and nothing has failed, as far as this rank knows without asking others;
  /// false where the backend does not know. Never blocks.
  virtual bool idle() const { return false; }

  /// Time-out of wait() without argument.
  virtual Duration timeout() const = 0;

  /// Processor seconds that the threads of this communicator and its living duplicates have used so far: time
  /// that a rank computing on all its cores loses. Thread-safe.
  virtual double progress_thread_cpu_s() const { return 0; }
};

}  // namespace lockstep::comm
