#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <vector>

#include <mpi.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/helper_thread.h"
#include "lockstep/comm/mpi/mpi_message.h"
#include "lockstep/comm/mpi/mpi_session.h"
#include "lockstep/comm/plugin.h"
#include "lockstep/comm/transport.h"

namespace lockstep::comm {
namespace {

char* at(const Buffer& buffer, size_t byte) {
  return static_cast<char*>(buffer.data) + byte;
}

/// Waits asleep for a request whose completion depends on other ranks. `stop` ends the wait early; may be
/// null.
void wait_asleep(MPI_Request& request, Deadline deadline, const std::atomic<bool>* stop) {
  Backoff backoff;
  while (true) {
    int done = 0;
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done != 0) return;
    if (stop != nullptr && *stop) throw CommError("abandoned after a failure");
    if (Clock::now() > deadline) {
      throw TimeoutError("not all ranks arrived in time",
                         "check that every rank is alive and takes the same steps");
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

/// Open MPI's blocking collectives are its tuned ones, but spin while they wait for other ranks. So each
/// collective first waits asleep until all ranks have arrived, where they have not, which leaves only the
/// transfer to MPI.
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

  void run(const Collective& collective, Deadline by) override {
    if (!collective.arrived) {
      if (is_small(collective)) return run_small(collective, by);
      arrive(by);
    }
    switch (collective.kind) {
      case Collective::Kind::kAllReduce:
        return all_reduce(collective);
      case Collective::Kind::kReduce:
        return reduce(collective.output, collective.op, collective.root);
      case Collective::Kind::kBroadcast:
        return broadcast(collective);
      case Collective::Kind::kAllGather:
        return all_gather(collective);
      case Collective::Kind::kReduceScatter:
        return reduce_scatter(collective);
      case Collective::Kind::kAllToAll:
        return all_to_all(collective);
      case Collective::Kind::kBarrier:
        return;
    }
  }

  /// Only MPI's calls that do not block can be given up. MPI_THREAD_MULTIPLE allows any thread.
  bool keeps_deadline(const Collective& collective) const override { return is_small(collective); }

  std::shared_ptr<Transport> split(std::span<const int> ranks, Deadline by) override {
    arrive(by);
    const bool member = ranks.size() > 1 && std::find(ranks.begin(), ranks.end(), rank_) != ranks.end();
    MPI_Comm part = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split(collectives_, member ? 0 : MPI_UNDEFINED, rank_, &part), "MPI_Comm_split");
    if (!member) return nullptr;
    check_mpi(MPI_Comm_set_errhandler(part, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    return std::make_shared<MpiTransport>(part, duplicate(part, by, &stopped_));
  }

  std::shared_ptr<Operation> start(const Message& message, Deadline by) override {
    auto operation = std::make_shared<MpiMessage>(message, by);
    operation->start(messages_);
    pending_.add(operation);
    if (!operation->poll()) poller_.add(operation);
    return operation;
  }

  bool messages_idle() override { return pending_.empty(); }

  void abort(const Failure& why) noexcept override {
    stopped_ = true;
    for (const auto& message : pending_.take()) message->fail(why);
  }

  void close() noexcept override {
    poller_.stop();
    // Freeing a communicator is collective, and during an exception this rank may be the only one to leave.
    const bool in_good_order = !stopped_ && std::uncaught_exceptions() == 0;
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (in_good_order && finalized == 0) {
      MPI_Comm_free(&collectives_);
      MPI_Comm_free(&messages_);
    }
    MpiSession::get().give_back(in_good_order);
  }

  double helper_cpu_s() const override { return poller_.cpu_s(); }

 private:
  static constexpr size_t kSmallBytes = 16 * 1024;

  /// Waits asleep until all ranks have arrived.
  void arrive(Deadline by) {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Ibarrier(collectives_, &request), "MPI_Ibarrier");
    wait_asleep(request, by, &stopped_);
  }

  /// Barriers, and all-reduces and broadcasts of little data: one round trip fewer without a blocking MPI
  /// call, and too little data for the algorithm to matter.
  static bool is_small(const Collective& collective) {
    using Kind = Collective::Kind;
    if (collective.kind == Kind::kBarrier) return true;
    return (collective.kind == Kind::kAllReduce || collective.kind == Kind::kBroadcast) &&
           collective.output.bytes() <= kSmallBytes;
  }

  /// Carries out a small collective without blocking MPI calls.
  void run_small(const Collective& collective, Deadline by) {
    const Buffer& buffer = collective.output;
    MPI_Request request = MPI_REQUEST_NULL;
    if (collective.kind == Collective::Kind::kBarrier) return arrive(by);
    if (collective.kind == Collective::Kind::kAllReduce) {
      check_mpi(MPI_Iallreduce(MPI_IN_PLACE, buffer.data, int(buffer.count), mpi_type(buffer.dtype),
                               mpi_op(buffer.dtype, collective.op), collectives_, &request),
                "MPI_Iallreduce");
    } else {
      check_mpi(
          MPI_Ibcast(buffer.data, int(buffer.bytes()), MPI_BYTE, collective.root, collectives_, &request),
          "MPI_Ibcast");
    }
    wait_asleep(request, by, &stopped_);
  }

  template <typename Call>
  static void in_pieces(const Buffer& buffer, Call call) {
    const size_t width = element_bytes(buffer.dtype);
    for (size_t first = 0; first < buffer.count; first += kLargestMpiCount) {
      call(at(buffer, first * width), int(std::min(kLargestMpiCount, buffer.count - first)));
    }
  }

  void all_reduce(const Collective& collective) {
    const Buffer& buffer = collective.output;
    const MPI_Datatype type = mpi_type(buffer.dtype);
    const MPI_Op mpi = mpi_op(buffer.dtype, collective.op);
    in_pieces(buffer, [&](char* data, int count) {
      check_mpi(MPI_Allreduce(MPI_IN_PLACE, data, count, type, mpi, collectives_), "MPI_Allreduce");
    });
  }

  void reduce(const Buffer& buffer, ReduceOp op, int root) {
    const MPI_Datatype type = mpi_type(buffer.dtype);
    const MPI_Op mpi = mpi_op(buffer.dtype, op);
    in_pieces(buffer, [&](char* data, int count) {
      const bool is_root = rank_ == root;
      check_mpi(MPI_Reduce(is_root ? MPI_IN_PLACE : data, is_root ? data : nullptr, count, type, mpi, root,
                           collectives_),
                "MPI_Reduce");
    });
  }

  void broadcast(const Collective& collective) {
    const MpiBlock block(collective.output.bytes());
    check_mpi(MPI_Bcast(collective.output.data, block.count(), block.type(), collective.root, collectives_),
              "MPI_Bcast");
  }

  void all_gather(const Collective& collective) {
    const Buffer& input = collective.input;
    const Buffer& output = collective.output;
    const MpiBlock block(input.bytes());
    const bool in_place = input.data == at(output, size_t(rank_) * input.bytes());
    check_mpi(MPI_Allgather(in_place ? MPI_IN_PLACE : input.data, block.count(), block.type(), output.data,
                            block.count(), block.type(), collectives_),
              "MPI_Allgather");
  }

  void reduce_scatter(const Collective& collective) {
    const Buffer& input = collective.input;
    const Buffer& output = collective.output;
    char* const own_part = at(input, size_t(rank_) * output.bytes());
    if (output.count > kLargestMpiCount) {
      // Too many elements for an int: one reduction per part, each in pieces.
      for (int root = 0; root < size_; ++root) {
        reduce({at(input, size_t(root) * output.bytes()), output.count, output.dtype}, collective.op, root);
      }
      if (output.data != own_part) std::memcpy(output.data, own_part, output.bytes());
      return;
    }
    // MPI allows no overlap of input and output.
    char* target = static_cast<char*>(output.data);
    if (target == own_part) {
      scratch_.resize(output.bytes());
      target = scratch_.data();
    }
    check_mpi(MPI_Reduce_scatter_block(input.data, target, int(output.count), mpi_type(output.dtype),
                                       mpi_op(output.dtype, collective.op), collectives_),
              "MPI_Reduce_scatter_block");
    if (target != output.data && output.count > 0) std::memcpy(output.data, target, output.bytes());
  }

  void all_to_all(const Collective& collective) {
    const MpiBlock block(collective.input.bytes() / size_t(size_));
    check_mpi(MPI_Alltoall(collective.input.data, block.count(), block.type(), collective.output.data,
                           block.count(), block.type(), collectives_),
              "MPI_Alltoall");
  }

  MPI_Comm collectives_;
  /// Separate from the collectives', so that neither waits for the other.
  MPI_Comm messages_;
  int rank_ = 0;
  int size_ = 0;
  std::atomic<bool> stopped_{false};
  std::vector<char> scratch_;
  MessagePoller poller_;
  PendingMessages<> pending_;
};

/// Collective over MPI_COMM_WORLD, whose ranks must be those of `options`. Throws ConfigError, TimeoutError,
/// CommError.
std::shared_ptr<Transport> connect_mpi_transport(const ConnectOptions& options) {
  const Deadline deadline = deadline_after(options.timeout);
  MpiSession::get().begin(options, deadline);
  try {
    const MPI_Comm collectives = duplicate(MPI_COMM_WORLD, deadline, nullptr);
    const MPI_Comm messages = duplicate(MPI_COMM_WORLD, deadline, nullptr);
    return std::make_shared<MpiTransport>(collectives, messages);
  } catch (...) {
    // Recorded as a communicator that failed, so that MPI is not finalized at exit.
    MpiSession::get().lend();
    MpiSession::get().give_back(false);
    throw;
  }
}

Communicator* connect_mpi(const ConnectOptions& options) {
  return connect_transport(connect_mpi_transport, options).release();
}

constexpr BackendPlugin kPlugin = {
    kPluginAbiVersion,
    "Open MPI " LOCKSTEP_VERSION_TEXT(OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION),
    connect_mpi};

}  // namespace
}  // namespace lockstep::comm

extern "C" [[gnu::visibility("default")]] const lockstep::comm::BackendPlugin* lockstep_backend_plugin() {
  return &lockstep::comm::kPlugin;
}
