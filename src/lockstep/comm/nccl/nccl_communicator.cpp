#include "lockstep/comm/nccl/nccl_communicator.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <stdlib.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/argument_checks.h"
#include "lockstep/comm/nccl/nccl_errors.h"
#include "lockstep/comm/nccl/nccl_session.h"
#include "lockstep/comm/nccl/nccl_types.h"
#include "lockstep/comm/unique_id.h"

namespace lockstep::comm {
namespace {

constexpr Capabilities kCapabilities{.cpu_buffers = false,
                                     .cuda_buffers = true,
                                     .receive_any = false,
                                     .message_tags = false,
                                     .ranks_as_threads = true,
                                     .gpu_queues = true};

class NcclWork final : public Work {
 public:
  NcclWork(std::shared_ptr<NcclOperation> operation, std::shared_ptr<NcclSession> session)
      : operation_(std::move(operation)), session_(std::move(session)) {}

  bool test() override {
    return guarded([&] {
      ask();
      return operation_->test();
    });
  }

  void wait(Duration timeout) override {
    const bool complete = guarded([&] {
      ask();
      return operation_->wait_until(deadline_after(timeout));
    });
    if (complete) return;
    const Failure failure = session_->timeout_failure(*operation_, timeout);
    session_->break_with(failure);
    operation_->fail(failure);
    failure.raise();
  }

  void wait() override { wait(session_->timeout()); }

  void wait_in_stream(void* stream) override {
    auto* const queue = static_cast<cudaStream_t>(stream);
    guarded([&] {
      if (operation_->has_outcome()) return operation_->test();
      session_->flush();
      // A graph has no dependencies outside of itself: what it needs has to be there before.
      if (!operation_->captured() && is_capturing(queue)) {
        wait();
        return true;
      }
      operation_->hold(queue);
      return false;
    });
  }

  void on_complete(std::function<void()> done) override {
    guarded([&] {
      ask();
      return true;
    });
    operation_->on_complete(std::move(done));
  }

 private:
  void ask() {
    if (operation_->has_outcome()) return;
    session_->flush();
    if (operation_->captured()) {
      throw ConfigError(fmt::format("{} on {} was captured into a CUDA graph, so it is carried out when the "
                                    "graph is launched, and the host cannot wait for it",
                                    operation_->info().describe(), session_->where()),
                        "let the captured stream wait (Work::wait_in_stream), and wait for the graph");
    }
    session_->hurry(*operation_);
  }

  template <typename Call>
  bool guarded(Call call) {
    try {
      return call();
    } catch (const ConfigError&) {
      throw;
    } catch (...) {
      session_->break_with(Failure::from_current_exception());
      throw;
    }
  }

  std::shared_ptr<NcclOperation> operation_;
  std::shared_ptr<NcclSession> session_;
};

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
  double progress_thread_cpu_s() const override {
    double sum_s = session_->cpu_s();
    const std::lock_guard lock(mutex_);
    for (const auto& duplicate : duplicates_) {
      if (const auto session = duplicate.lock()) sum_s += session->cpu_s();
    }
    return sum_s;
  }

  WorkPtr all_reduce(const Buffer& buffer, ReduceOp op) override {
    checks_.buffer("all_reduce", buffer);
    return issue({"all_reduce", buffer.bytes()}, {buffer}, [=](ncclComm_t comm, cudaStream_t stream) {
      return ncclAllReduce(buffer.data, buffer.data, buffer.count, nccl_type(buffer.dtype), nccl_op(op), comm,
                           stream);
    });
  }

  WorkPtr reduce(const Buffer& buffer, ReduceOp op, int root) override {
    checks_.buffer("reduce", buffer);
    checks_.root("reduce", root);
    return issue({"reduce", buffer.bytes()}, {buffer}, [=](ncclComm_t comm, cudaStream_t stream) {
      return ncclReduce(buffer.data, buffer.data, buffer.count, nccl_type(buffer.dtype), nccl_op(op), root,
                        comm, stream);
    });
  }

  WorkPtr broadcast(const Buffer& buffer, int root) override {
    checks_.buffer("broadcast", buffer);
    checks_.root("broadcast", root);
    return issue({"broadcast", buffer.bytes()}, {buffer}, [=](ncclComm_t comm, cudaStream_t stream) {
      return ncclBroadcast(buffer.data, buffer.data, buffer.bytes(), ncclUint8, root, comm, stream);
    });
  }

  WorkPtr all_gather(const Buffer& input, const Buffer& output) override {
    checks_.all_gather(input, output);
    return issue({"all_gather", output.bytes()}, {input, output}, [=](ncclComm_t comm, cudaStream_t stream) {
      return ncclAllGather(input.data, output.data, input.bytes(), ncclUint8, comm, stream);
    });
  }

  WorkPtr reduce_scatter(const Buffer& input, const Buffer& output, ReduceOp op) override {
    checks_.reduce_scatter(input, output);
    return issue({"reduce_scatter", input.bytes()}, {input, output},
                 [=](ncclComm_t comm, cudaStream_t stream) {
                   return ncclReduceScatter(input.data, output.data, output.count, nccl_type(output.dtype),
                                            nccl_op(op), comm, stream);
                 });
  }

  WorkPtr all_to_all(const Buffer& input, const Buffer& output) override {
    checks_.all_to_all(input, output);
    const size_t bytes = input.bytes() / size_t(size());
    const auto part = [bytes](const Buffer& buffer, int peer) {
      return static_cast<char*>(buffer.data) + size_t(peer) * bytes;
    };
    // ncclAlltoAll is new in NCCL 2.28, and the same.
    return issue({"all_to_all", input.bytes()}, {input, output},
                 [=, ranks = size()](ncclComm_t comm, cudaStream_t stream) {
                   return grouped([&](const auto& keep_error) {
                     for (int peer = 0; peer < ranks; ++peer) {
                       keep_error(ncclSend(part(input, peer), bytes, ncclUint8, peer, comm, stream));
                       keep_error(ncclRecv(part(output, peer), bytes, ncclUint8, peer, comm, stream));
                     }
                   });
                 });
  }

  WorkPtr barrier() override {
    // NCCL has none: a sum over all ranks, of nothing in particular.
    return work(session_->issue({"barrier"}, {}, [this](ncclComm_t comm, cudaStream_t stream) {
      void* const scratch = session_->link().scratch();
      return ncclAllReduce(scratch, scratch, 1, ncclInt32, ncclSum, comm, stream);
    }));
  }

  WorkPtr send(const Buffer& buffer, int peer, int tag) override {
    checks_.message("send", buffer, peer, tag);
    return hold({"send", buffer.bytes(), peer, tag}, buffer, [=](ncclComm_t comm, cudaStream_t stream) {
      return ncclSend(buffer.data, buffer.bytes(), ncclUint8, peer, comm, stream);
    });
  }

  WorkPtr receive(const Buffer& buffer, int peer, int tag) override {
    checks_.message("receive", buffer, peer, tag);
    return hold({"receive", buffer.bytes(), peer, tag}, buffer, [=](ncclComm_t comm, cudaStream_t stream) {
      return ncclRecv(buffer.data, buffer.bytes(), ncclUint8, peer, comm, stream);
    });
  }

  WorkPtr receive_any(const Buffer&, int) override {
    checks_.receive_any();
    return nullptr;
  }

  std::unique_ptr<Communicator> split(std::span<const int> ranks) override {
    checks_.split(ranks);
    const auto mine = std::find(ranks.begin(), ranks.end(), rank());
    std::shared_ptr<NcclLink> part =
        session_->split(mine != ranks.end(), int(mine - ranks.begin()), int(ranks.size()));
    if (!part) return nullptr;
    return std::make_unique<NcclCommunicator>(std::move(part), timeout());
  }

  std::unique_ptr<Communicator> duplicate() override {
    std::unique_ptr<Communicator> other = Communicator::duplicate();
    const std::lock_guard lock(mutex_);
    std::erase_if(duplicates_, [](const auto& duplicate) { return duplicate.expired(); });
    duplicates_.push_back(static_cast<const NcclCommunicator&>(*other).session_);
    return other;
  }

  void register_memory(void* data, size_t bytes) override {
    checks_.buffer("register_memory", {data, bytes, DType::kUInt8, DeviceKind::kCuda});
    if (bytes > 0) session_->register_memory(data, bytes);
  }

 private:
  WorkPtr work(std::shared_ptr<NcclOperation> operation) const {
    return std::make_unique<NcclWork>(std::move(operation), session_);
  }

  WorkPtr issue(OperationInfo info, const std::vector<Buffer>& buffers, const NcclLink::Call& call) {
    return work(session_->issue(info, buffers, info.bytes > 0 ? call : nullptr));
  }

  WorkPtr hold(OperationInfo info, const Buffer& buffer, NcclLink::Call call) {
    // Both ends know of the size, so neither tells NCCL of nothing.
    if (info.bytes == 0) call = [](ncclComm_t, cudaStream_t) { return ncclSuccess; };
    return work(session_->hold(info, buffer, std::move(call)));
  }

  const std::shared_ptr<NcclSession> session_;
  const ArgumentChecks checks_;
  mutable std::mutex mutex_;
  /// Not kept alive.
  std::vector<std::weak_ptr<NcclSession>> duplicates_;
};

/// "NVIDIA H200 GPU-0123abcd...": the same text means the same GPU.
std::string gpu_identity(int device) {
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  std::string text = fmt::format("{} GPU-", properties.name);
  for (const char byte : properties.uuid.bytes)
    text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

std::string new_unique_id() {
  ncclUniqueId id;
  check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId", nullptr);
  return std::string(id.internal, sizeof id.internal);
}

std::string unique_id(const ConnectOptions& options) {
  if (options.size == 1) return new_unique_id();
  // A rank's n-th connect with a store meets the n-th of the others.
  const int64_t turn = options.store->add(fmt::format("nccl/turn/{}", options.rank), 1);
  return share_unique_id(*options.store, fmt::format("nccl/{}", turn), options.rank, options.size,
                         gpu_identity(options.cuda_device), new_unique_id, options.timeout);
}

}  // namespace

std::unique_ptr<Communicator> connect_nccl(const ConnectOptions& options) {
  check_gpu(options.cuda_device, "the nccl backend");
  const Deadline deadline = deadline_after(options.timeout);
  // With several communicators on a GPU: their kernels start in the order of the calls, so that no two GPUs
  // wait for each other. NCCL reads it once, at the first call.
  ::setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
  enter_gpu(options.cuda_device);
  const std::string bytes = unique_id(options);
  ncclUniqueId id{};
  if (bytes.size() != sizeof id.internal) {
    throw CommError(fmt::format("an NCCL id of {} bytes, {} expected", bytes.size(), sizeof id.internal),
                    "run the same build of lockstep on all hosts");
  }
  std::memcpy(id.internal, bytes.data(), bytes.size());
  auto link = NcclLink::join(id, options.rank, options.size, options.cuda_device, deadline);
  return std::make_unique<NcclCommunicator>(std::move(link), options.timeout);
}

}  // namespace lockstep::comm
