// One rank of a scenario in which something goes wrong: fault_rank BACKEND SCENARIO RANK RANKS FOLDER. The
// last rank is the one that fails; the others say what they noticed. Under mpirun RANK and RANKS are its own.

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/comm/backend.h"
#include "lockstep/comm/store.h"

#include "comm/folder_store.h"

namespace {

using namespace lockstep;
using namespace lockstep::comm;

constexpr Duration kTimeout(3);

void misbehave(Communicator& comm, const std::string& scenario) {
  if (scenario == "killed" || scenario == "killed_message") ::kill(::getpid(), SIGKILL);
  if (scenario == "stopped") ::kill(::getpid(), SIGSTOP);
  if (scenario == "leaves") throw std::runtime_error("this rank has a problem of its own");
  if (scenario == "absent") {
    // Alive, but never joins in; long enough for the others to give up.
    ::usleep(useconds_t(kTimeout.count() * 2e6));
    return;
  }
  comm.barrier()->wait();
}

void notice(Communicator& comm, const std::string& scenario) {
  const int last = comm.size() - 1;
  std::vector<float> values(300'000, 1.F);
  const Buffer buffer = host_buffer(values.data(), values.size());
  if (scenario == "killed_message") {
    comm.receive(buffer, last, 1)->wait();
  } else if (scenario == "clean") {
    comm.barrier()->wait();
  } else {
    comm.all_reduce(buffer, ReduceOp::kSum)->wait();
  }
}

int run(const std::string& backend, const std::string& scenario, int rank, int ranks,
        const std::string& folder) {
  if (scenario == "no_connect") return backend_status(backend).usable ? 0 : 1;
  const double start_s = now_s();
  try {
    if (scenario == "never_joins" && rank == ranks - 1) return 0;
    FolderStore store(folder);
    const auto comm = connect(
        backend, {.rank = rank, .size = ranks, .store = &store, .timeout = kTimeout, .interface = ""});
    float one = 1;
    comm->all_reduce(host_buffer(&one, 1), ReduceOp::kSum)->wait();
    if (rank == ranks - 1) {
      misbehave(*comm, scenario);
    } else {
      notice(*comm, scenario);
    }
    if (scenario == "clean") return 0;
  } catch (const TimeoutError& error) {
    fmt::print("TimeoutError {:.1f} {}\n", now_s() - start_s, error.what());
  } catch (const PeerLostError& error) {
    fmt::print("PeerLostError {:.1f} {}\n", now_s() - start_s, error.what());
  } catch (const Error& error) {
    fmt::print("Error {:.1f} {}\n", now_s() - start_s, error.what());
  } catch (const std::runtime_error& error) {
    return 1;
  }
  std::fflush(stdout);
  // After a time-out a rank leaves at once.
  if (scenario != "leaves") ::_exit(0);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return kExitUsage;
  const char* mpi_rank = std::getenv("OMPI_COMM_WORLD_RANK");
  const char* mpi_ranks = std::getenv("OMPI_COMM_WORLD_SIZE");
  const int rank = std::atoi(mpi_rank != nullptr ? mpi_rank : argv[3]);
  const int ranks = std::atoi(mpi_ranks != nullptr ? mpi_ranks : argv[4]);
  return run(argv[1], argv[2], rank, ranks, argv[5]);
}
