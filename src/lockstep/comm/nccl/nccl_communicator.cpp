#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <stdlib.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/argument_checks.h"
#include "lockstep/comm/cuda/cuda_check.h"
#include "lockstep/comm/nccl/nccl_session.h"
#include "lockstep/comm/plugin.h"
#include "lockstep/comm/unique_id.h"

namespace lockstep::comm {
namespace {

constexpr Capabilities kCapabilities{.cpu_buffers = false,
                                     .cuda_buffers = true,
                                     .receive_any = false,
                                     .message_tags = false,
                                     .gpu_queues = true};

ncclDataType_t nccl_type(DType dtype) {
  constexpr ncclDataType_t kTypes[] = {ncclFloat32, ncclFloat64, ncclFloat16, ncclBfloat16,
                                       ncclUint8,   ncclInt32,   ncclInt64};
  return kTypes[static_cast<size_t>(dtype)];
}

ncclRedOp_t nccl_op(ReduceOp op) {
  constexpr ncclRedOp_t kOps[] = {ncclSum, ncclMin, ncclMax};
  return kOps[static_cast<size_t>(op)];
}

/// Puts `collective` into `stream`. `scratch`: GPU memory of at least four bytes.
ncclResult_t enqueue(const Collective& collective, int ranks, void* scratch, ncclComm_t comm,
                     cudaStream_t stream) {
  const Buffer& input = collective.input;
  const Buffer& output = collective.output;
  switch (collective.kind) {
    case Collective::Kind::kAllReduce:
      return ncclAllReduce(input.data, output.data, input.count, nccl_type(input.dtype),
                           nccl_op(collective.op), comm, stream);
    case Collective::Kind::kReduce:
      return ncclReduce(input.data, output.data, input.count, nccl_type(input.dtype), nccl_op(collective.op),
                        collective.root, comm, stream);
    case Collective::Kind::kBroadcast:
      return ncclBroadcast(input.data, output.data, input.bytes(), ncclUint8, collective.root, comm, stream);
    case Collective::Kind::kAllGather:
      return ncclAllGather(input.data, output.data, input.bytes(), ncclUint8, comm, stream);
    case Collective::Kind::kReduceScatter:
      return ncclReduceScatter(input.data, output.data, output.count, nccl_type(output.dtype),
                               nccl_op(collective.op), comm, stream);
    case Collective::Kind::kAllToAll: {
      // The same as ncclAlltoAll, which only NCCL 2.28 and later have.
      const size_t bytes = input.bytes() / size_t(ranks);
      const auto part = [bytes](const Buffer& buffer, int peer) {
        return static_cast<char*>(buffer.data) + size_t(peer) * bytes;
      };
      return grouped([&](const auto& keep_error) {
        for (int peer = 0; peer < ranks; ++peer) {
          keep_error(ncclSend(part(input, peer), bytes, ncclUint8, peer, comm, stream));
          keep_error(ncclRecv(part(output, peer), bytes, ncclUint8, peer, comm, stream));
        }
      });
    }
    case Collective::Kind::kBarrier:
      break;
  }
  // NCCL has no barrier: a sum over all ranks, of nothing in particular.
  return ncclAllReduce(scratch, scratch, 1, ncclInt32, ncclSum, comm, stream);
}

/// The buffers whose streams an operation has to wait for.
std::vector<Buffer> buffers_of(const Collective& collective) {
  if (collective.kind == Collective::Kind::kBarrier) return {};
  if (collective.traits().in_place) return {collective.input};
  return {collective.input, collective.output};
}

class NcclWork final : public OperationWork {
 public:
  NcclWork(std::shared_ptr<NcclOperation> operation, std::shared_ptr<NcclSession> session)
      : OperationWork(operation, session), operation_(*operation), session_(*session) {}

  void wait_in_stream(void* stream) override {
    auto* const queue = static_cast<cudaStream_t>(stream);
    guarded([&] {
      if (operation_.has_outcome()) return operation_.test();
      session_.flush();
      // A graph has no dependencies outside itself: the operation has to be complete before.
      if (!operation_.captured() && is_capturing(queue)) {
        OperationWork::wait();
        return true;
      }
      operation_.hold(queue);
      return false;
    });
  }

 private:
  /// Issues held messages, which may include this one, and makes the watch report its end without delay.
  void before_asking() override {
    if (operation_.has_outcome()) return;
    session_.flush();
    if (operation_.captured()) {
      throw ConfigError(fmt::format("{} on {} was captured into a CUDA graph: it runs when the graph is "
                                    "launched, and the host cannot wait for it",
                                    operation_.info().describe(), session_.where()),
                        "let the captured stream wait (Work::wait_in_stream), and wait for the graph");
    }
    session_.hurry(operation_);
  }

  /// Kept alive by the base.
  NcclOperation& operation_;
  NcclSession& session_;
};

/// A communicator directly on NCCL.
///
/// Operations are put into a stream of the communicator's own by the calling thread, in the order of the
/// calls: asynchronous for the GPU from the first on; the host waits for other ranks only where NCCL connects
/// to them, at the first use.
/// In a stream that is being captured into a CUDA graph a collective becomes a branch of that graph, which
/// has to be joined before the capture ends: by Work::wait_in_stream with the captured stream; nothing else
/// waits for it.
///
/// NCCL knows no tags (Capabilities::message_tags), and does not compare the sizes of a message's two ends.
class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(std::shared_ptr<NcclLink> link, Duration timeout)
      : session_(NcclSession::create(std::move(link), timeout)),
        checks_(rank(), size(), kCapabilities, session_->where()) {
    // Makes the connections that most operations need, while all ranks are here.
    barrier()->wait();
  }

  ~NcclCommunicator() override { session_->shut_down(); }

  int rank() const override { return session_->link().rank(); }
  int size() const override { return session_->link().size(); }
  std::string backend() const override { return "nccl"; }
  Capabilities capabilities() const override { return kCapabilities; }
  Duration timeout() const override { return session_->timeout(); }
  double progress_thread_cpu_s() const override { return session_->cpu_s(); }

  WorkPtr issue(const Collective& collective) override {
    checks_.check(collective);
    NcclLink::Call call;
    const bool is_barrier = collective.kind == Collective::Kind::kBarrier;
    if (is_barrier || collective.bytes() > 0) {
      call = [collective, ranks = size(), scratch = session_->link().scratch()](ncclComm_t comm,
                                                                                cudaStream_t stream) {
        return enqueue(collective, ranks, scratch, comm, stream);
      };
    }
    return work(session_->issue(info_of(collective), buffers_of(collective), call));
  }

  WorkPtr post(const Message& message) override {
    checks_.check(message);
    return work(
        session_->hold(info_of(message), message.buffer, [message](ncclComm_t comm, cudaStream_t stream) {
          const Buffer& buffer = message.buffer;
          // Both ends know the size, so both leave out an empty message.
          if (buffer.bytes() == 0) return ncclSuccess;
          if (message.kind == Message::Kind::kSend) {
            return ncclSend(buffer.data, buffer.bytes(), ncclUint8, message.peer, comm, stream);
          }
          return ncclRecv(buffer.data, buffer.bytes(), ncclUint8, message.peer, comm, stream);
        }));
  }

  std::unique_ptr<Communicator> split(std::span<const int> ranks) override {
    checks_.check_split(ranks);
    const auto mine = std::find(ranks.begin(), ranks.end(), rank());
    std::shared_ptr<NcclLink> part =
        session_->split(mine != ranks.end(), int(mine - ranks.begin()), int(ranks.size()));
    if (!part) return nullptr;
    return std::make_unique<NcclCommunicator>(std::move(part), timeout());
  }

  std::unique_ptr<Communicator> duplicate() override {
    std::unique_ptr<Communicator> other = Communicator::duplicate();
    session_->add_duplicate(static_cast<const NcclCommunicator&>(*other).session_);
    return other;
  }

  std::shared_ptr<void> allocate(size_t bytes) override {
    return bytes == 0 || size() == 1 ? nullptr : session_->allocate(bytes);
  }

 private:
  WorkPtr work(std::shared_ptr<NcclOperation> operation) const {
    return std::make_unique<NcclWork>(std::move(operation), session_);
  }

  const std::shared_ptr<NcclSession> session_;
  const ArgumentChecks checks_;
};

std::string new_unique_id() {
  ncclUniqueId id;
  check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId", nullptr);
  return std::string(id.internal, sizeof id.internal);
}

std::string unique_id(const ConnectOptions& options) {
  if (options.size == 1) return new_unique_id();
  // A rank's n-th connect with a store meets the n-th of the others.
  const int64_t turn = options.store->add(fmt::format("nccl/turn/{}", options.rank), 1);
  return share_unique_id(*options.store, fmt::format("nccl/{}/id", turn), options.rank, new_unique_id,
                         options.timeout);
}

/// Collective. On options.cuda_device. Throws BackendMissing, ConfigError (a GPU that does not exist),
/// TimeoutError, CommError.
Communicator* connect_nccl(const ConnectOptions& options) {
  check_gpu(options.cuda_device, "the nccl backend");
  const Deadline deadline = deadline_after(options.timeout);
  enter_gpu(options.cuda_device);
  const std::string bytes = unique_id(options);
  ncclUniqueId id{};
  if (bytes.size() != sizeof id.internal) {
    throw CommError(fmt::format("an NCCL id of {} bytes, {} expected", bytes.size(), sizeof id.internal),
                    "run the same build of lockstep on all hosts");
  }
  std::memcpy(id.internal, bytes.data(), bytes.size());
  auto link = NcclLink::join(id, options.rank, options.size, options.cuda_device, deadline);
  return std::make_unique<NcclCommunicator>(std::move(link), options.timeout).release();
}

/// Kernels of several communicators on a GPU then start in the order of the calls, so that no two GPUs wait
/// for each other. NCCL reads the variable once, at its first call.
void order_launches() {
  ::setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
}

void check_gpus() {
  count_gpus();
}

constexpr BackendPlugin kPlugin = {kPluginAbiVersion,
                                   "NCCL " LOCKSTEP_VERSION_TEXT(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH),
                                   connect_nccl, check_gpus};

}  // namespace
}  // namespace lockstep::comm

extern "C" [[gnu::visibility("default")]] const lockstep::comm::BackendPlugin* lockstep_backend_plugin() {
  // Here, as the plugin is opened: ranks may be threads, and in another's connect a thread reads the
  // environment. A process that starts ranks opens it before, and they inherit the variable.
  static const bool once = (lockstep::comm::order_launches(), true);
  static_cast<void>(once);
  return &lockstep::comm::kPlugin;
}
