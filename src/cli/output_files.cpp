#include "output_files.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lockstep/base/error.h"

namespace lockstep::cli {
namespace fs = std::filesystem;
namespace {

/// Beginnings of lockstep's own files: results, trainings, machines, traces, predictions of a job and of
/// curves, rows as CSV, and drawings. Python writes JSON otherwise, PyTorch's results too.
constexpr std::array<std::string_view, 8> kBeginnings{
    "{\n  \"pytorch_version\": ",
    "{\n  \"schema\": \"lockstep ",
    "{\n  \"topology_version\": ",
    "{\n  \"displayTimeUnit\": \"ms\",\n  \"traceEvents\": ",
    "{\n  \"jobs\": [\n    {\n      \"model\": ",
    "{\n  \"predictions\": [\n    {\n      \"curve\": ",
    "model,batch_per_rank,",
    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 "};
/// In the last line of a page, and of drawings in other formats (kDrawingMark).
constexpr std::string_view kMark = "Made by lockstep";

/// Bytes at either end of a file that show who wrote it: a page's last line and more.
constexpr size_t kShownBytes = 4096;

/// Takes `name` on this host. Where a process of this user has it, returns none, and that process.
UniqueFd take_name(const std::string& name, pid_t& holder) {
  UniqueFd taken(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  // An abstract name, which begins with a zero: it leaves no file, however the process ends.
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
  const auto* const where = reinterpret_cast<const sockaddr*>(&address);
  // Nobody answers those who ask for the name; they need places in the queue.
  if (::bind(taken.get(), where, sizeof address) == 0 && ::listen(taken.get(), SOMAXCONN) == 0) return taken;
  ucred other{};
  socklen_t size = sizeof other;
  const bool known = ::connect(taken.get(), where, sizeof address) == 0 &&
                     ::getsockopt(taken.get(), SOL_SOCKET, SO_PEERCRED, &other, &size) == 0;
  // Another user could keep this one from writing.
  if (known && other.uid == ::geteuid()) holder = other.pid;
  return {};
}

}  // namespace

bool holds_something(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && fs::file_size(path, ignored) > 0;
}

/// Judges by both ends: results of many ranks take hundreds of megabytes.
bool is_own(const fs::path& path) {
  const FileEnds ends = read_ends(path, kShownBytes);
  return std::ranges::any_of(kBeginnings,
                             [&](std::string_view beginning) { return ends.first.starts_with(beginning); }) ||
         ends.last.find(kMark) != std::string::npos;
}

void add_force_flag(Flags& flags, bool& force) {
  flags.add_switch("--force", force, "replace files that lockstep did not write, and checkpoints");
}

void refuse_stdout(const std::vector<GivenFile>& outputs) {
  for (const auto& [flag, path] : outputs) {
    if (path != "-") continue;
    throw ConfigError(fmt::format("{} writes a file, and '-' is not the name of one", flag),
                      "Tables go to standard output: give the file a name.");
  }
}

std::vector<UniqueFd> claim_outputs(const std::vector<GivenFile>& outputs) {
  std::vector<UniqueFd> claims;
  for (const auto& [flag, path] : outputs) {
    if (path.empty() || path == "-" || is_device_or_pipe(path)) continue;
    const size_t hash = std::hash<std::string>()(identity_of(path));
    pid_t holder = 0;
    claims.push_back(take_name(fmt::format("lockstep-output-{}-{:016x}", ::geteuid(), hash), holder));
    if (holder == 0) continue;
    throw ConfigError(fmt::format("{} '{}' is what another lockstep (pid {}) is about to write", flag,
                                  path.string(), holder),
                      "Wait for its end, or give every run a file of its own.");
  }
  return claims;
}

void check_output_files(const std::vector<GivenFile>& outputs, const std::vector<GivenFile>& inputs,
                        bool force) {
  check_outputs(outputs, inputs);
  for (const auto& [flag, path] : outputs) {
    if (path.empty() || path == "-" || !holds_something(path) || is_own(path)) continue;
    for (const auto& [name, folder] : inputs) {
      if (folder.empty() || !is_inside(path, folder)) continue;
      throw ConfigError(fmt::format("{} '{}' is a file of {} '{}', which would be lost", flag, path.string(),
                                    name, folder.string()),
                        "Choose another file to write to.");
    }
    if (force) continue;
    throw ConfigError(
        fmt::format("{} '{}' is a file that lockstep did not write, and would be lost", flag, path.string()),
        "Choose another name, or add --force to replace it.");
  }
}

void check_checkpoint(const GivenFile& checkpoint, const std::string& resume, bool force) {
  const fs::path& path = checkpoint.path;
  if (force || path.empty() || !holds_something(path)) return;
  if (!resume.empty() && is_same_file(path, resume)) return;
  throw ConfigError(
      fmt::format("{} '{}' is there already, and would be lost", checkpoint.flag, path.string()),
      fmt::format("Continue it with --resume {}, choose another name, or add --force to replace it.",
                  path.string()));
}

}  // namespace lockstep::cli
