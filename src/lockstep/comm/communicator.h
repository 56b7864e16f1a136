#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "lockstep/comm/types.h"

namespace lockstep::comm {

using Duration = std::chrono::duration<double>;

/// One operation on its way. May be waited for from any thread. Destroying it does not cancel the operation
/// and sends nothing; the buffers must stay alive until it is complete.
class Work {
 public:
  virtual ~Work() = default;

  /// Whether the operation is complete; never blocks. Throws what wait would throw.
  virtual bool test() = 0;

  /// Blocks, without polling, until the operation is complete. Throws TimeoutError after `timeout`, CommError
  /// or PeerLostError when the operation failed; the communicator is unusable after any of these.
  virtual void wait(Duration timeout) = 0;

  /// Waits as long as the communicator's own time-out.
  virtual void wait() = 0;

  /// What is put into `stream`, a queue of the GPU whose memory the operation is on (a cudaStream_t), from
  /// now on runs after the operation. A backend that works in the GPU's queues (nccl) does not block for it,
  /// and a failure shows later, from test(), wait() or the communicator's next call; the others wait(). The
  /// only way to wait for what was issued while its stream was being captured into a CUDA graph.
  virtual void wait_in_stream([[maybe_unused]] void* stream) { wait(); }

  /// Calls `done` once when the operation is complete or has failed (test() tells which by throwing): from
  /// the communicator's progress thread, or at once from this thread when it is complete already. `done` must
  /// be short and must not wait for communication. At most one callback per Work.
  virtual void on_complete(std::function<void()> done) = 0;

  /// For receive_any: the rank that sent, once complete. -1 for every other operation.
  virtual int source() const { return -1; }
};

using WorkPtr = std::unique_ptr<Work>;

/// What a backend can do; what it cannot is refused with a ConfigError that names the backend.
struct Capabilities {
  bool cpu_buffers = true;
  bool cuda_buffers = false;
  bool point_to_point = true;
  bool receive_any = true;
  /// Whether messages are told apart by their tags and pass collectives. Where not, all that is issued on a
  /// communicator is one order: two ranks issue the messages between them, and the collectives, in the same.
  bool message_tags = true;
  /// Whether one process may hold several ranks of one communicator (as threads).
  bool ranks_as_threads = false;
  /// Whether operations on a GPU's memory are put into its queues, where a stream waits for them without the
  /// host (Work::wait_in_stream), and can be recorded into a CUDA graph.
  bool gpu_queues = false;
};

/// What ranks say to each other. One object per rank; used by one thread of that rank at a time.
///
/// Collectives are asynchronous and complete in the order in which they were issued; every rank issues the
/// same ones, with the same count, dtype, operation and root, in the same order. Point-to-point messages are
/// ordered per (peer, tag) and independent of the collectives (but see Capabilities::message_tags). Memory of
/// a GPU is read and written after what its buffer's stream held when the operation was issued; who goes on
/// with it elsewhere waits for the Work first. Results of a reduction are the same bits on
/// every rank. A failure or time-out is fatal to the communicator, and destroying it then does not
/// communicate. Operations in flight when a communicator is destroyed are abandoned: they fail, here and on
/// the other ranks.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The backend's name: "thread", "gloo", "mpi", "nccl".
  virtual std::string backend() const = 0;
  virtual Capabilities capabilities() const = 0;

  /// Collective. buffer: in and out, the reduction over all ranks on every rank.
  virtual WorkPtr all_reduce(const Buffer& buffer, ReduceOp op) = 0;
  /// Collective. buffer: in; out on `root` only, undefined contents elsewhere.
  virtual WorkPtr reduce(const Buffer& buffer, ReduceOp op, int root) = 0;
  /// Collective. buffer: in on `root`, out elsewhere.
  virtual WorkPtr broadcast(const Buffer& buffer, int root) = 0;
  /// Collective. output.count = size() * input.count; rank r's input ends up at [r * input.count, ...).
  /// input may be the rank's own place in output.
  virtual WorkPtr all_gather(const Buffer& input, const Buffer& output) = 0;
  /// Collective. input.count = size() * output.count; rank r gets the reduction of everybody's r-th part.
  /// output may be the rank's own place in input. The contents of input are undefined afterwards.
  virtual WorkPtr reduce_scatter(const Buffer& input, const Buffer& output, ReduceOp op) = 0;
  /// Collective. input.count = output.count, a multiple of size(); rank r's part s goes to part r of rank s.
  /// The two must not overlap.
  virtual WorkPtr all_to_all(const Buffer& input, const Buffer& output) = 0;
  /// Collective. Complete when every rank has issued it.
  virtual WorkPtr barrier() = 0;

  /// peer: another rank. tag in [0, 2^20). Complete when `buffer` may be used again, which may take until the
  /// peer receives.
  virtual WorkPtr send(const Buffer& buffer, int peer, int tag) = 0;
  /// The message must have exactly buffer.bytes() bytes, else CommError.
  virtual WorkPtr receive(const Buffer& buffer, int peer, int tag) = 0;
  /// From whoever sends next with this tag; Work::source() tells who.
  virtual WorkPtr receive_any(const Buffer& buffer, int tag) = 0;

  /// Collective over this communicator. `ranks`: ascending, the same on all ranks. A new communicator of
  /// those ranks in that order, numbered from 0; null on ranks that are not among them. It may outlive this
  /// one.
  virtual std::unique_ptr<Communicator> split(std::span<const int> ranks) = 0;

  /// Collective. A communicator of the same ranks whose operations do not wait for this one's: a second lane
  /// for the same traffic, so what observes or changes this one's operations does so with the new one's. It
  /// may outlive this one.
  virtual std::unique_ptr<Communicator> duplicate();

  /// Collective. A hint: buffers within these bytes, memory of a GPU that outlives the communicator, will be
  /// used again and again. nccl registers them with the network and the other GPUs; the others do nothing.
  virtual void register_memory([[maybe_unused]] void* data, [[maybe_unused]] size_t bytes) {}

  /// How long wait() without argument waits.
  virtual Duration timeout() const = 0;

  /// Processor seconds that the threads of this communicator and its living duplicates have used so far;
  /// what they use, a rank that computes with all its cores does not have. Thread-safe.
  virtual double progress_thread_cpu_s() const { return 0; }
};

}  // namespace lockstep::comm
