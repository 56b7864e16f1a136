#include "lockstep/launch/rendezvous.h"

#include <fstream>
#include <sstream>
#include <thread>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/host_name.h"
#include "lockstep/base/secret.h"
#include "lockstep/base/tcp_socket.h"
#include "lockstep/comm/operation.h"
#include "lockstep/launch/child_process.h"

namespace lockstep::launch {
namespace {

namespace fs = std::filesystem;
using Seconds = std::chrono::duration<double>;

constexpr std::chrono::milliseconds kLookAgain{20};
constexpr const char* kSetAddress =
    "Set MASTER_ADDR to the host of rank 0 on all ranks: mpirun -x MASTER_ADDR=HOST ...";

/// The start time of a process in the system's ticks; empty if there is no such process.
std::string start_time_of(int64_t pid) {
  constexpr size_t kStartTime = 19;  // field 22 of proc(5), counted from the state
  const std::vector<std::string> fields = process_status(pid);
  return fields.size() > kStartTime ? fields[kStartTime] : "";
}

}  // namespace

std::string host_of_rank_0(const RankEnvironment& environment) {
  const auto& [addr, guess] = std::tie(environment.master_addr, environment.launcher_addr);
  if (guess.empty()) {
    if (!addr.empty()) {
      require_known_host(addr);
      return addr;
    }
    throw ConfigError(fmt::format("{} started ranks on several hosts, and MASTER_ADDR is not set",
                                  to_string(environment.launcher)),
                      kSetAddress);
  }
  if (!addr.empty() && is_known_host(addr)) return addr;
  std::istringstream addresses(guess);
  for (std::string address; std::getline(addresses, address, ',');)
    if (environment.rank == 0 ? is_own_address(address) : has_route(address)) return address;
  if (environment.rank != 0) return guess.substr(0, guess.find(','));
  throw ConfigError(
      fmt::format("{}, and rank 0 is on {}, not at {}, where {} runs",
                  addr.empty() ? "MASTER_ADDR is not set" : fmt::format("cannot find host '{}'", addr),
                  host_name(), guess, to_string(environment.launcher)),
      kSetAddress);
}

Rendezvous::Rendezvous(const RankEnvironment& environment, OpenAgentStore open_agent_store)
    : hosts_(environment.rank == 0 && !environment.served_by_parent()),
      known_{environment.master_addr, environment.master_port, environment.token},
      open_agent_store_(std::move(open_agent_store)) {
  if (environment.served_by_parent()) return;
  if (environment.on_one_host()) {
    // MASTER_ADDR may be the address of another interface, which is open to other hosts.
    if (!is_loopback(known_.host)) known_.host = kLoopback;
    // The agent's port is taken.
    if (environment.has_agent_store) known_.port = 0;
    known_.token = hosts_ ? random_secret() : "";
    meeting_ = fmt::format("lockstep-{}-{}", ::geteuid(), environment.job_id);
    return;
  }
  known_.host = host_of_rank_0(environment);
  if (environment.uses_agent_store()) {
    key_ = fmt::format("lockstep/{}/server", environment.job_id);
    agent_port_ = std::exchange(known_.port, 0);
    token_given_ = !known_.token.empty();
    if (hosts_ && !token_given_) known_.token = random_secret();
  } else if (known_.port == 0) {
    known_.port = static_cast<int>(12000 + std::hash<std::string>()(environment.job_id) % 20000);
  }
}

Address Rendezvous::address(Seconds timeout) {
  if (hosts_ || (meeting_.empty() && key_.empty())) return known_;
  const auto deadline = comm::deadline_after(timeout);
  if (!key_.empty()) {
    const auto agent = open_agent_store_(known_.host, agent_port_, timeout);
    std::istringstream text(agent->get(key_, Seconds(deadline - Clock::now())));
    Address published = known_;
    text >> published.port;
    if (!token_given_) text >> published.token;
    return published;
  }
  while (true) {
    if (const auto published = read_published()) return *published;
    if (Clock::now() >= deadline) {
      throw TimeoutError(fmt::format("it has not published its port in '{}'", temporary_folder().string()),
                         "Look for messages of rank 0; all ranks of a host need the same TMPDIR.");
    }
    std::this_thread::sleep_for(kLookAgain);
  }
}

void Rendezvous::publish(int port, Seconds timeout) {
  if (!key_.empty()) {
    open_agent_store_(known_.host, agent_port_, timeout)
        ->set(key_, fmt::format("{} {}", port, token_given_ ? "" : known_.token));
  }
  if (meeting_.empty()) return;
  folder_.emplace(make_private_folder(meeting_), std::chrono::milliseconds(0));
  // Atomically, since the others poll for it.
  write_file_atomically(folder_->path() / "server", fmt::format("{} {} {} {}\n", port, ::getpid(),
                                                                start_time_of(::getpid()), known_.token));
}

std::optional<Address> Rendezvous::read_published() const {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(temporary_folder(), ignored)) {
    struct stat status {};
    // A folder of another user could lead this rank to a foreign server.
    if (!entry.path().filename().string().starts_with(meeting_ + "-") ||
        ::lstat(entry.path().c_str(), &status) != 0 || status.st_uid != ::geteuid())
      continue;
    std::ifstream stream(entry.path() / "server");
    Address published{known_.host};
    int64_t pid = 0;
    std::string started;
    if (!(stream >> published.port >> pid >> started >> published.token)) continue;
    if (start_time_of(pid) == started) return published;
  }
  return std::nullopt;
}

}  // namespace lockstep::launch
