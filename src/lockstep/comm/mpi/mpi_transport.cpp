#include "lockstep/comm/mpi/mpi_transport.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <mutex>
#include <vector>

#include <mpi.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/helper_thread.h"
#include "lockstep/comm/mpi/mpi_message.h"
#include "lockstep/comm/mpi/mpi_session.h"
#include "lockstep/comm/mpi/mpi_types.h"

namespace lockstep::comm {
namespace {

char* at(const Buffer& buffer, size_t byte) {
  return static_cast<char*>(buffer.data) + byte;
}

/// Waits asleep for a request whose end depends on other ranks. `stop` ends the waiting early.
void wait_asleep(MPI_Request& request, Deadline deadline, const std::atomic<bool>* stop) {
  Backoff backoff;
  while (true) {
    int done = 0;
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done != 0) return;
    if (stop != nullptr && *stop) throw CommError("given up after a failure");
    if (Clock::now() > deadline) {
      throw TimeoutError("not all ranks arrived in time",
                         "see whether every rank is alive and takes the same steps");
    }
    backoff.pause();
  }
}

MPI_Comm duplicate(MPI_Comm comm, Deadline deadline, const std::atomic<bool>* stop) {
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Comm_idup(comm, &copy, &request), "MPI_Comm_idup");
  wait_asleep(request, deadline, stop);
  check_mpi(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return copy;
}

/// Open MPI's blocking collectives are its tuned ones, but spin while they wait. So each collective first
/// waits asleep until all ranks have arrived, and is pure transfer then.
class MpiTransport final : public Transport {
 public:
  /// Takes both communicators, which have the same ranks.
  MpiTransport(MPI_Comm collectives, MPI_Comm messages) : collectives_(collectives), messages_(messages) {
    MPI_Comm_rank(collectives_, &rank_);
    MPI_Comm_size(collectives_, &size_);
    MpiSession::get().lend();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string backend() const override { return "mpi"; }

  void all_reduce(const Buffer& buffer, ReduceOp op, Deadline by) override {
    const MPI_Datatype type = mpi_type(buffer.dtype);
    const MPI_Op mpi = mpi_op(buffer.dtype, op);
    if (buffer.bytes() <= kSmallBytes) {
      // One round trip fewer, and too little data for the algorithm to matter.
      MPI_Request request = MPI_REQUEST_NULL;
      check_mpi(
          MPI_Iallreduce(MPI_IN_PLACE, buffer.data, int(buffer.count), type, mpi, collectives_, &request),
          "MPI_Iallreduce");
      return wait_asleep(request, by, &stopped_);
    }
    arrive(by);
    in_pieces(buffer, [&](char* data, int count) {
      check_mpi(MPI_Allreduce(MPI_IN_PLACE, data, count, type, mpi, collectives_), "MPI_Allreduce");
    });
  }

  void reduce(const Buffer& buffer, ReduceOp op, int root, Deadline by) override {
    arrive(by);
    reduce_present(buffer, op, root);
  }

  void broadcast(const Buffer& buffer, int root, Deadline by) override {
    const MpiBlock block(buffer.bytes());
    if (buffer.bytes() <= kSmallBytes) {
      MPI_Request request = MPI_REQUEST_NULL;
      check_mpi(MPI_Ibcast(buffer.data, block.count(), block.type(), root, collectives_, &request),
                "MPI_Ibcast");
      return wait_asleep(request, by, &stopped_);
    }
    arrive(by);
    check_mpi(MPI_Bcast(buffer.data, block.count(), block.type(), root, collectives_), "MPI_Bcast");
  }

  void all_gather(const Buffer& input, const Buffer& output, Deadline by) override {
    arrive(by);
    const MpiBlock block(input.bytes());
    const bool in_place = input.data == at(output, size_t(rank_) * input.bytes());
    check_mpi(MPI_Allgather(in_place ? MPI_IN_PLACE : input.data, block.count(), block.type(), output.data,
                            block.count(), block.type(), collectives_),
              "MPI_Allgather");
  }

  void reduce_scatter(const Buffer& input, const Buffer& output, ReduceOp op, Deadline by) override {
    arrive(by);
    char* const own_place = at(input, size_t(rank_) * output.bytes());
    if (output.count > kLargestMpiCount) {
      for (int root = 0; root < size_; ++root) {
        const Buffer part{at(input, size_t(root) * output.bytes()), output.count, output.dtype};
        reduce_present(part, op, root);
      }
      if (output.data != own_place) std::memcpy(output.data, own_place, output.bytes());
      return;
    }
    // MPI wants the two apart.
    char* target = static_cast<char*>(output.data);
    if (target == own_place) {
      scratch_.resize(output.bytes());
      target = scratch_.data();
    }
    check_mpi(MPI_Reduce_scatter_block(input.data, target, int(output.count), mpi_type(output.dtype),
                                       mpi_op(output.dtype, op), collectives_),
              "MPI_Reduce_scatter_block");
    if (target != output.data && output.count > 0) std::memcpy(output.data, target, output.bytes());
  }

  void all_to_all(const Buffer& input, const Buffer& output, Deadline by) override {
    arrive(by);
    const MpiBlock block(input.bytes() / size_t(size_));
    check_mpi(MPI_Alltoall(input.data, block.count(), block.type(), output.data, block.count(), block.type(),
                           collectives_),
              "MPI_Alltoall");
  }

  void barrier(Deadline by) override { arrive(by); }

  std::shared_ptr<Transport> split(std::span<const int> ranks, Deadline by) override {
    arrive(by);
    const bool member = ranks.size() > 1 && std::find(ranks.begin(), ranks.end(), rank_) != ranks.end();
    MPI_Comm part = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split(collectives_, member ? 0 : MPI_UNDEFINED, rank_, &part), "MPI_Comm_split");
    if (!member) return nullptr;
    check_mpi(MPI_Comm_set_errhandler(part, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    return std::make_shared<MpiTransport>(part, duplicate(part, by, &stopped_));
  }

  std::shared_ptr<Operation> send(const Buffer& buffer, int peer, int tag, Deadline by) override {
    auto message = std::make_shared<MpiMessage>(OperationInfo{"send", buffer.bytes(), peer, tag}, buffer, by);
    message->start_send(messages_, peer, tag);
    return adopt(std::move(message));
  }

  std::shared_ptr<Operation> receive(const Buffer& buffer, int peer, int tag, Deadline by) override {
    auto message =
        std::make_shared<MpiMessage>(OperationInfo{"receive", buffer.bytes(), peer, tag}, buffer, by);
    message->start_receive(messages_, peer, tag);
    return adopt(std::move(message));
  }

  std::shared_ptr<Operation> receive_any(const Buffer& buffer, int tag, Deadline by) override {
    auto message =
        std::make_shared<MpiMessage>(OperationInfo{"receive_any", buffer.bytes(), -1, tag}, buffer, by);
    message->start_receive(messages_, MPI_ANY_SOURCE, tag);
    return adopt(std::move(message));
  }

  bool messages_idle() override {
    std::lock_guard lock(mutex_);
    forget_finished();
    return pending_.empty();
  }

  void abort(const Failure& why) noexcept override {
    stopped_ = true;
    std::vector<std::shared_ptr<MpiMessage>> pending;
    {
      std::lock_guard lock(mutex_);
      pending.swap(pending_);
    }
    for (const auto& message : pending) message->fail(why);
  }

  void close() noexcept override {
    poller_.stop();
    // An exception on its way up means that this rank alone may be leaving.
    const bool in_good_order = !stopped_ && std::uncaught_exceptions() == 0;
    int finalised = 0;
    MPI_Finalized(&finalised);
    if (in_good_order && finalised == 0) {
      MPI_Comm_free(&collectives_);
      MPI_Comm_free(&messages_);
    }
    MpiSession::get().give_back(in_good_order);
  }

  double helper_cpu_s() const override { return poller_.cpu_s(); }

 private:
  static constexpr size_t kSmallBytes = 16 * 1024;

  void arrive(Deadline by) {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Ibarrier(collectives_, &request), "MPI_Ibarrier");
    wait_asleep(request, by, &stopped_);
  }

  template <typename Call>
  static void in_pieces(const Buffer& buffer, Call call) {
    const size_t width = element_bytes(buffer.dtype);
    for (size_t first = 0; first < buffer.count; first += kLargestMpiCount) {
      call(at(buffer, first * width), int(std::min(kLargestMpiCount, buffer.count - first)));
    }
  }

  void reduce_present(const Buffer& buffer, ReduceOp op, int root) {
    const MPI_Datatype type = mpi_type(buffer.dtype);
    const MPI_Op mpi = mpi_op(buffer.dtype, op);
    in_pieces(buffer, [&](char* data, int count) {
      const bool is_root = rank_ == root;
      check_mpi(MPI_Reduce(is_root ? MPI_IN_PLACE : data, is_root ? data : nullptr, count, type, mpi, root,
                           collectives_),
                "MPI_Reduce");
    });
  }

  std::shared_ptr<Operation> adopt(std::shared_ptr<MpiMessage> message) {
    {
      std::lock_guard lock(mutex_);
      forget_finished();
      pending_.push_back(message);
    }
    if (!message->poll()) poller_.add(message);
    return message;
  }

  void forget_finished() {
    std::erase_if(pending_, [](const auto& message) { return message->has_outcome(); });
  }

  MPI_Comm collectives_;
  /// Apart from the collectives, so that neither waits for the other.
  MPI_Comm messages_;
  int rank_ = 0;
  int size_ = 0;
  std::atomic<bool> stopped_{false};
  std::vector<char> scratch_;
  MessagePoller poller_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<MpiMessage>> pending_;
};

}  // namespace

std::shared_ptr<Transport> connect_mpi_transport(const ConnectOptions& options) {
  const Deadline deadline = deadline_after(options.timeout);
  MpiSession::get().begin(options, deadline);
  try {
    const MPI_Comm collectives = duplicate(MPI_COMM_WORLD, deadline, nullptr);
    const MPI_Comm messages = duplicate(MPI_COMM_WORLD, deadline, nullptr);
    return std::make_shared<MpiTransport>(collectives, messages);
  } catch (...) {
    MpiSession::get().lend();
    MpiSession::get().give_back(false);
    throw;
  }
}

}  // namespace lockstep::comm
