#include "lockstep/recordings/recording.h"

#include <cmath>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json_codec.h"

namespace lockstep::recordings {
namespace {

constexpr const char* kVersionKey = "lockstep_recording";
constexpr int kVersion = 1;
constexpr const char* kRecordingAdvice =
    "Give a folder that `lockstep record` wrote, or a trace of PyTorch's profiler.";

}  // namespace

bool is_rank_text(std::string_view begin) {
  return begin.find(fmt::format("\"{}\"", kVersionKey)) != std::string::npos;
}

bool is_rank_file(const std::filesystem::path& path) {
  return is_rank_text(read_ends(path, 256).first);
}

RankFile parse_rank_file(std::string_view text, const std::string& name) {
  const nlohmann::json document = parse_json(text, name, kRecordingAdvice);
  const JsonNode root(document, name);
  root[kVersionKey].version(kVersion);
  RankFile file;
  decode(root, file);
  if (file.rank >= file.world) root["rank"].refuse(fmt::format("a rank below world, {}", file.world));
  for (size_t i = 0; i < file.step_end_s.size(); ++i) {
    if (!std::isfinite(file.step_end_s[i]) || (i > 0 && file.step_end_s[i] <= file.step_end_s[i - 1]))
      root["step_end_s"].elements()[i].refuse("a time after the one before");
  }
  const auto steps = static_cast<int64_t>(file.step_end_s.size());
  const bool in_order = file.window.size() == 2 && file.window[0] >= 0 && file.window[0] <= file.window[1];
  if (!file.window.empty() && !in_order) root["window"].refuse("two indexes in order");
  for (int64_t& index : file.window) index = std::min(index, steps);
  if (std::filesystem::path(file.trace).has_parent_path()) root["trace"].refuse("a file of the same folder");
  const auto fits = [](double samples) { return samples > 0 && samples <= 1e9; };
  if (!fits(file.samples_per_step.value_or(1))) root["samples_per_step"].refuse("a number up to 1000000000");
  if (!fits(static_cast<double>(file.batch_size.value_or(1))))
    root["batch_size"].refuse("a whole number from 1 to 1000000000");
  return file;
}

RankFile read_rank_file(const std::filesystem::path& path) {
  return parse_rank_file(read_file(path), path.string());
}

}  // namespace lockstep::recordings
