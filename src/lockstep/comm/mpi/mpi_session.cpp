#include "lockstep/comm/mpi/mpi_session.h"

#include <array>
#include <cstdlib>
#include <memory>
#include <thread>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/element_reduce.h"

namespace lockstep::comm {
namespace {

/// Whether mpirun, or srun with PMIx, started this process.
bool started_by_launcher() {
  return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr || std::getenv("PMIX_RANK") != nullptr ||
         std::getenv("PMI_RANK") != nullptr;
}

std::string mpirun_advice(int ranks) {
  return fmt::format("start the program with mpirun -np {} --bind-to none", ranks);
}

/// MPI has no 16-bit floats: they travel as a type of two bytes, with operations of our own.
MPI_Datatype make_half_type() {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  check_mpi(MPI_Type_contiguous(2, MPI_BYTE, &type), "MPI_Type_contiguous");
  check_mpi(MPI_Type_commit(&type), "MPI_Type_commit");
  return type;
}

template <DType dtype, ReduceOp op>
void combine(void* input, void* in_and_out, int* count, MPI_Datatype*) {
  static const ReduceFunction function = reduce_function(dtype, op);
  function(in_and_out, input, in_and_out, size_t(*count));
}

MPI_Op make_op(MPI_User_function* function) {
  MPI_Op op = MPI_OP_NULL;
  constexpr int kCommutes = 1;
  check_mpi(MPI_Op_create(function, kCommutes, &op), "MPI_Op_create");
  return op;
}

template <DType dtype>
MPI_Op own_op(ReduceOp op) {
  static const std::array<MPI_Op, 3> ops = {make_op(combine<dtype, ReduceOp::kSum>),
                                            make_op(combine<dtype, ReduceOp::kMin>),
                                            make_op(combine<dtype, ReduceOp::kMax>)};
  return ops[size_t(op)];
}

}  // namespace

void check_mpi(int result, const char* call) {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(result, text, &length);
  throw CommError(fmt::format("{}: {}", call, text));
}

MpiSession& MpiSession::get() {
  // Never destroyed: finalize_at_exit, and threads left behind, may run after static destructors.
  static MpiSession* const session = new MpiSession;
  return *session;
}

void MpiSession::begin(const ConnectOptions& options, Deadline deadline) {
  std::lock_guard lock(mutex_);
  if (!initialized_ && !started_by_launcher()) {
    throw ConfigError(
        fmt::format("the mpi backend was asked for {} ranks, but mpirun did not start this process, so "
                    "MPI has only one",
                    options.size),
        mpirun_advice(options.size));
  }
  // Under the lock: threads of one process may connect at the same time.
  if (!initialized_) initialize(deadline);
  int rank = 0;
  int size = 0;
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  if (size != options.size || rank != options.rank) {
    throw ConfigError(fmt::format("this process should be rank {} of {}, but is rank {} of {} in MPI",
                                  options.rank, options.size, rank, size),
                      mpirun_advice(options.size));
  }
}

void MpiSession::initialize(Deadline deadline) {
  int already = 0;
  check_mpi(MPI_Initialized(&already), "MPI_Initialized");
  // The program that embeds lockstep has initialized MPI, and finalizes it.
  if (already != 0) {
    initialized_ = true;
    return;
  }
  // A thread that spins inside MPI gives way to the rank's computing threads.
  ::setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);

  // MPI_Init waits for all processes without a time-out, so it runs on a thread that can be left behind. The
  // outcome is shared with that thread, which may write it after this function has given up.
  struct Outcome {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    int result = MPI_SUCCESS;
    int level = MPI_THREAD_SINGLE;
  };
  const auto outcome = std::make_shared<Outcome>();
  std::thread initializer([outcome] {
    int level = MPI_THREAD_SINGLE;
    const int result = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
    std::lock_guard lock(outcome->mutex);
    outcome->done = true;
    outcome->result = result;
    outcome->level = level;
    outcome->changed.notify_all();
  });
  std::unique_lock lock(outcome->mutex);
  if (!outcome->changed.wait_until(lock, deadline, [&] { return outcome->done; })) {
    lock.unlock();
    initializer.detach();
    in_good_order_ = false;
    throw TimeoutError("MPI_Init_thread did not return in time", "check that every rank joins");
  }
  lock.unlock();
  initializer.join();
  check_mpi(outcome->result, "MPI_Init_thread");
  initialized_ = true;
  std::atexit(finalize_at_exit);
  if (outcome->level < MPI_THREAD_MULTIPLE) {
    throw BackendMissing(
        fmt::format("this MPI was built without MPI_THREAD_MULTIPLE (it gives level {})", outcome->level),
        "install Debian's openmpi-bin and libopenmpi3, which have it");
  }
}

void MpiSession::finalize_at_exit() {
  MpiSession& session = get();
  std::lock_guard lock(session.mutex_);
  int finalized = 0;
  // Finalizing while a communicator is lent may wait for ranks that have gone.
  MPI_Finalized(&finalized);
  if (finalized == 0 && session.in_good_order_ && session.lent_ == 0) MPI_Finalize();
}

void MpiSession::lend() {
  std::lock_guard lock(mutex_);
  ++lent_;
}

void MpiSession::give_back(bool in_good_order) {
  std::lock_guard lock(mutex_);
  --lent_;
  in_good_order_ = in_good_order_ && in_good_order;
}

MPI_Datatype mpi_type(DType dtype) {
  static const MPI_Datatype half_type = make_half_type();
  const MPI_Datatype types[] = {MPI_FLOAT,   MPI_DOUBLE,  half_type,  half_type,
                                MPI_UINT8_T, MPI_INT32_T, MPI_INT64_T};
  return types[static_cast<size_t>(dtype)];
}

MPI_Op mpi_op(DType dtype, ReduceOp op) {
  if (dtype == DType::kFloat16) return own_op<DType::kFloat16>(op);
  if (dtype == DType::kBFloat16) return own_op<DType::kBFloat16>(op);
  // Open MPI's vector code saturates sums of bytes at 255; on every backend of ours they wrap around.
  if (dtype == DType::kUInt8) return own_op<DType::kUInt8>(op);
  const MPI_Op ops[] = {MPI_SUM, MPI_MIN, MPI_MAX};
  return ops[static_cast<size_t>(op)];
}

MpiBlock::MpiBlock(size_t bytes) {
  if (bytes <= kLargestMpiCount) {
    count_ = int(bytes);
    return;
  }
  // One element of a type made for it: whole pieces of kLargestMpiCount bytes, then the rest.
  MPI_Datatype piece = MPI_DATATYPE_NULL;
  check_mpi(MPI_Type_contiguous(int(kLargestMpiCount), MPI_BYTE, &piece), "MPI_Type_contiguous");
  const size_t pieces = bytes / kLargestMpiCount;
  const int lengths[] = {int(pieces), int(bytes % kLargestMpiCount)};
  const MPI_Aint places[] = {0, MPI_Aint(pieces * kLargestMpiCount)};
  const MPI_Datatype types[] = {piece, MPI_BYTE};
  check_mpi(MPI_Type_create_struct(2, lengths, places, types, &type_), "MPI_Type_create_struct");
  check_mpi(MPI_Type_commit(&type_), "MPI_Type_commit");
  check_mpi(MPI_Type_free(&piece), "MPI_Type_free");
  count_ = 1;
}

MpiBlock::~MpiBlock() {
  if (type_ != MPI_BYTE) MPI_Type_free(&type_);
}

}  // namespace lockstep::comm
