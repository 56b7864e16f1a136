#include "output_files.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::cli {
namespace fs = std::filesystem;
namespace {

/// Beginnings of lockstep's own files: results, trainings, machines, traces, rows as CSV, and drawings.
/// Python writes JSON otherwise, PyTorch's results too.
constexpr std::array<std::string_view, 6> kBeginnings{
    "{\n  \"pytorch_version\": ",  "{\n  \"schema\": \"lockstep ",
    "{\n  \"topology_version\": ", "{\n  \"displayTimeUnit\": \"ms\",\n  \"traceEvents\": ",
    "model,batch_per_rank,",       "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 "};
/// In the last line of a page, and of drawings in other formats (kDrawingMark).
constexpr std::string_view kMark = "Made by lockstep ";

/// Bytes at either end of a file that show who wrote it: a page's last line and more.
constexpr size_t kShownBytes = 4096;

/// Judges by both ends: results of many ranks take hundreds of megabytes.
bool is_own(const fs::path& path) {
  const FileEnds ends = read_ends(path, kShownBytes);
  return std::ranges::any_of(kBeginnings,
                             [&](std::string_view beginning) { return ends.first.starts_with(beginning); }) ||
         ends.last.find(kMark) != std::string::npos;
}

}  // namespace

bool holds_something(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && fs::file_size(path, ignored) > 0;
}

void add_force_flag(Flags& flags, bool& force) {
  flags.add_switch("--force", force, "replace files that lockstep did not write, and checkpoints");
}

void refuse_stdout(const std::vector<GivenFile>& outputs) {
  for (const auto& [flag, path] : outputs) {
    if (path != "-") continue;
    throw ConfigError(
        fmt::format("{} writes a file, and '-' is not the name of one", flag),
        "Tables go to standard output. Of a result file, 'lockstep show FILE --csv -' writes the "
        "rows there.");
  }
}

void check_output_files(const std::vector<GivenFile>& outputs, const std::vector<GivenFile>& inputs,
                        bool force) {
  check_outputs(outputs, inputs);
  for (const auto& [flag, path] : outputs) {
    if (force || path.empty() || path == "-" || !holds_something(path) || is_own(path)) continue;
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
