// Cost of the Communicator beside the bare library: all-reduces in turn, in the same processes, as lockstep
// collectives carries them out.
//
//   build/comm_overhead gloo [REPEATS [LARGEST_MIB]]         starts two ranks itself
//   mpirun -np 2 --bind-to none build/comm_overhead mpi [REPEATS [LARGEST_MIB]]
//
// The ratio is the median of the pairs' ratios, with its 95 % interval.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <mpi.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/units.h"
#include "lockstep/comm/backend.h"
#include "lockstep/comm/helper_thread.h"
#include "lockstep/comm/store.h"
#include "lockstep/measure/interval.h"

#include "comm/folder_store.h"

namespace {

using namespace lockstep;

constexpr int kRanks = 2;
constexpr size_t kSizes_bytes[] = {4 << 10, 1 << 20, 25 << 20, 100 << 20};

using AllReduce = std::function<void(std::vector<float>&)>;

AllReduce bare_gloo(const std::filesystem::path& folder, int rank) {
  gloo::transport::tcp::attr address("127.0.0.1");
  auto device = gloo::transport::tcp::CreateDevice(address);
  std::filesystem::create_directories(folder);
  gloo::rendezvous::FileStore store(folder);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, kRanks);
  context->connectFullMesh(store, device);
  return [context](std::vector<float>& values) {
    gloo::AllreduceOptions options(context);
    options.setOutput(values.data(), values.size());
    options.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
    gloo::allreduce(options);
  };
}

void bare_mpi(std::vector<float>& values) {
  MPI_Allreduce(MPI_IN_PLACE, values.data(), int(values.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

/// Seconds of one all-reduce after a common start: the slower rank's.
double time_one(comm::Communicator& comm, const AllReduce& all_reduce, std::vector<float>& values) {
  std::fill(values.begin(), values.end(), 1.F);
  comm.run({comm::Collective::Kind::kBarrier});
  const double start_s = now_s();
  all_reduce(values);
  double took_s = now_s() - start_s;
  if (values.front() != kRanks || values.back() != kRanks) throw CommError("wrong sum");
  comm.all_reduce(comm::host_buffer(&took_s, 1), comm::ReduceOp::kMax)->wait();
  return took_s;
}

struct Spread {
  double low, median, high;
};

/// Median and quartiles.
Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values[values.size() / 4], values[values.size() / 2], values[values.size() * 3 / 4]};
}

struct Amount {
  int repeats;
  size_t largest_bytes;
};

void compare(comm::Communicator& comm, const AllReduce& bare, const Amount& amount) {
  const comm::SigpipeBlock no_sigpipe;
  const AllReduce ours = [&](std::vector<float>& values) {
    const comm::Buffer buffer = comm::host_buffer(values.data(), values.size());
    comm.run(
        {.kind = comm::Collective::Kind::kAllReduce, .input = buffer, .output = buffer, .arrived = true});
  };
  if (comm.rank() == 0)
    fmt::print("{}, {} ranks, {} pairs; ms: median (quartiles)\n", comm.backend(), kRanks, amount.repeats);
  for (const size_t bytes : kSizes_bytes) {
    if (bytes > amount.largest_bytes) break;
    std::vector<float> values(bytes / sizeof(float));
    std::vector<double> bare_ms;
    std::vector<double> ours_ms;
    std::vector<double> ratios;
    for (int i = -2; i < amount.repeats; ++i) {
      const bool bare_first = i % 2 == 0;
      double bare_s = bare_first ? time_one(comm, bare, values) : 0;
      const double ours_s = time_one(comm, ours, values);
      if (!bare_first) bare_s = time_one(comm, bare, values);
      if (i < 0) continue;  // the first ones fault pages in
      bare_ms.push_back(bare_s * 1e3);
      ours_ms.push_back(ours_s * 1e3);
      ratios.push_back(ours_s / bare_s);
    }
    if (comm.rank() != 0) continue;
    const Spread b = spread_of(bare_ms);
    const Spread o = spread_of(ours_ms);
    const measure::Estimate ratio = measure::quantile_estimate(ratios, 0.5, {.check_settled = false});
    const measure::Interval r = ratio.interval.value_or(measure::Interval{NAN, NAN});
    fmt::print(
        "{:>9}  bare {:8.3f} ({:.3f}..{:.3f})  communicator {:8.3f} ({:.3f}..{:.3f})  ratio {:.3f} "
        "[{:.3f}, {:.3f}], of medians {:.3f}\n",
        format_bytes(int64_t(bytes)), b.median, b.low, b.high, o.median, o.low, o.high, ratio.value, r.lower,
        r.upper, o.median / b.median);
  }
}

int run(const std::string& backend, int rank, const std::filesystem::path& folder, const Amount& amount) {
  std::unique_ptr<comm::Store> store;
  if (backend == "gloo") store = std::make_unique<comm::FolderStore>(folder / "ours");
  const auto comm = comm::connect(
      backend,
      {.rank = rank, .size = kRanks, .store = store.get(), .timeout = comm::Duration(60), .interface = ""});
  compare(*comm, backend == "gloo" ? bare_gloo(folder / "bare", rank) : bare_mpi, amount);
  return kExitDone;
}

/// The second rank is a fork that has not started any thread yet.
int run_gloo_ranks(const Amount& amount) {
  std::string pattern = (std::filesystem::temp_directory_path() / "lockstep-bench-XXXXXX").string();
  const std::filesystem::path folder = ::mkdtemp(pattern.data());
  const pid_t child = ::fork();
  if (child == 0) return run("gloo", 1, folder, amount);
  const int result = run("gloo", 0, folder, amount);
  ::waitpid(child, nullptr, 0);
  std::filesystem::remove_all(folder);
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string backend = argc > 1 ? argv[1] : "";
  const Amount amount{.repeats = argc > 2 ? std::atoi(argv[2]) : 41,
                      .largest_bytes = size_t(argc > 3 ? std::atoi(argv[3]) : 100) << 20};
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  try {
    if (backend == "gloo") return run_gloo_ranks(amount);
    if (backend == "mpi" && rank != nullptr) return run(backend, std::atoi(rank), "", amount);
  } catch (const Error& error) {
    fmt::print(stderr, "{}; {}\n", error.what(), error.advice());
    return kExitFailed;
  }
  fmt::print(stderr, "usage: [mpirun -np 2 --bind-to none] {0} gloo|mpi [REPEATS [LARGEST_MIB]]\n", argv[0]);
  return kExitUsage;
}
