#include "lockstep/comm/mpi/mpi_session.h"

#include <cstdlib>
#include <memory>
#include <thread>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"

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

}  // namespace lockstep::comm
