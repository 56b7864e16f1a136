#include "lockstep/network_file/recorded_training.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json_codec.h"
#include "lockstep/base/json_node.h"

namespace lockstep::network_file {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 40;
constexpr int64_t kMostBatch = int64_t{1} << 31;
constexpr int kBytesOfValue = 4;

constexpr const char* kAdvice =
    "Record a training with 'lockstep record', import its traces, or measure with 'bench --breakdown'.";

/// Times of a recorded step, of which none is negative.
double seconds(const JsonNode& node) {
  const double value = node.number_or(0);
  return value > 0 ? value : 0;
}

/// The phases of every step of every rank, where they were recorded one by one.
std::vector<std::vector<RecordedStep>> steps_of(const JsonNode& recorded) {
  std::vector<std::vector<RecordedStep>> ranks;
  for (const JsonNode& rank : recorded["steps"].elements()) {
    std::vector<RecordedStep>& steps = ranks.emplace_back();
    for (const JsonNode& step : rank.elements()) {
      steps.push_back({.before_s = seconds(step["input_s"]) + seconds(step["other_s"]),
                       .forward_s = seconds(step["forward_s"]),
                       .backward_s = seconds(step["backward_s"])});
    }
  }
  return ranks;
}

/// The means over the steps, of each rank.
std::vector<std::vector<RecordedStep>> means_of(const JsonNode& breakdown) {
  std::vector<std::vector<RecordedStep>> ranks;
  for (const JsonNode& rank : breakdown["ranks"].elements()) {
    const JsonNode phases = rank["phases"];
    ranks.push_back({{.before_s = seconds(phases["input_s"]) + seconds(phases["other_s"]),
                      .forward_s = seconds(phases["forward_s"]),
                      .backward_s = seconds(phases["backward_s"])}});
  }
  return ranks;
}

/// One gradient per bucket of rank 0, ready when the bucket was issued.
std::vector<RecordedGradient> gradients_of_buckets(const JsonNode& breakdown) {
  std::vector<RecordedGradient> gradients;
  const JsonNode rank = breakdown["ranks"].elements().front();
  const JsonNode phases = rank["phases"];
  const double before_s = seconds(phases["input_s"]) + seconds(phases["forward_s"]);
  const double backward_s = seconds(phases["backward_s"]);
  for (const JsonNode& bucket : rank["buckets"].elements()) {
    const int64_t elements = bucket["bytes"].whole(0, kMostElements) / kBytesOfValue;
    if (elements == 0) continue;
    const double ready_s = seconds(bucket["ready_s"]) - before_s;
    gradients.push_back(
        {.shape = {elements}, .ready = backward_s > 0 ? std::clamp(ready_s / backward_s, 0.0, 1.0) : 1});
  }
  return gradients;
}

std::vector<RecordedGradient> gradients_of(const JsonNode& recorded) {
  std::vector<RecordedGradient> gradients;
  for (const JsonNode& node : recorded["gradients"].elements()) {
    RecordedGradient& gradient = gradients.emplace_back();
    int64_t elements = 1;
    for (const JsonNode& size : node["shape"].elements()) {
      gradient.shape.push_back(size.whole(1, kMostElements / elements));
      elements *= gradient.shape.back();
    }
    gradient.ready = std::clamp(node["ready"].number(), 0.0, 1.0);
  }
  std::ranges::stable_sort(gradients, {}, &RecordedGradient::ready);
  return gradients;
}

/// The processor time of a thread that computes over the time in which it does, of a row of lockstep's own.
double processor_share(const JsonNode& record, const JsonNode& run) {
  const JsonNode used = run["resources"];
  if (used.missing() || used["processor_utilisation"].missing()) return 1;
  const double cores = record["machine"].missing() ? 0 : record["machine"]["cores"].number_or(0);
  const double threads = run["ranks"].number() * std::max(1.0, run["threads_per_rank"].number_or(1));
  const JsonNode phases = run["breakdown"]["phases"];
  const double waits_s = seconds(phases["waiting_s"]) + seconds(phases["transfer_s"]);
  const double computes = 1 - waits_s / std::max(waits_s, phases["step_s"].number());
  const double busy = used["processor_utilisation"].number() - used["communication_threads"].number_or(0);
  const double of_thread = busy * (cores > 0 ? std::min(1.0, cores / threads) : 1);
  return computes > 0 && of_thread > 0 ? std::min(1.0, of_thread / computes) : 1;
}

}  // namespace

RecordedTraining read_recorded_training(const std::string& path) {
  const std::string text = read_file(path);
  const nlohmann::json document = parse_json(text, path);
  std::vector<JsonNode> found;
  for (const char* kind : {"recorded", "breakdown"}) {
    if (!found.empty()) break;
    for (const JsonNode& run : JsonNode(document, path)["lockstep"]["runs"].elements()) {
      if (!run[kind].missing()) found.push_back(run);
    }
  }
  const auto refuse = [&](const std::string& what, const std::string& advice) {
    throw Error(fmt::format("'{}' {}", path, what), advice);
  };
  if (found.empty()) refuse("has no recorded training and no row with a breakdown to replay", kAdvice);
  if (found.size() > 1) {
    refuse(fmt::format("has {} rows that could be replayed, and one is needed", found.size()),
           "Measure or import the one that is wanted into a file of its own.");
  }
  const JsonNode run = found.front(), recorded = run["recorded"], breakdown = run["breakdown"];
  RecordedTraining training{.path = path, .name = run["model"].text(), .unit = run["unit"].text_or("image")};
  training.batch = run["batch_per_rank"].whole(1, kMostBatch);
  if (!recorded.missing()) {
    training.gradients = gradients_of(recorded);
    training.ranks = steps_of(recorded);
    training.processor_share = std::clamp(recorded["processor_share"].number_or(1), 0.0, 1.0);
  }
  if (!breakdown.missing()) {
    if (training.gradients.empty()) training.gradients = gradients_of_buckets(breakdown);
    if (training.ranks.empty()) training.ranks = means_of(breakdown);
    if (recorded.missing())
      training.processor_share = processor_share(JsonNode(document, path)["lockstep"], run);
  }
  if (run["device"].text_or("cpu") != "cpu") training.processor_share = 0;
  if (training.gradients.empty()) refuse("does not say when which gradients were final", kAdvice);
  const bool even = std::ranges::all_of(training.ranks, [&](const auto& steps) {
    return !steps.empty() && steps.size() == training.ranks.front().size();
  });
  if (training.ranks.empty() || !even)
    refuse("does not have the phases of as many steps of all ranks", kAdvice);
  return training;
}

}  // namespace lockstep::network_file
