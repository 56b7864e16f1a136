#include "lockstep/network_file/recorded_training.h"

#include <algorithm>
#include <tuple>
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
/// A day, of which a replay would hardly see the end.
constexpr double kLongestStep_s = 86400;
/// Phases of the steps are part of them, and of others than the mean is of some more.
constexpr double kMostOfStep = 1.5;

/// Times of a recorded step, of which none is negative.
double seconds(const JsonNode& node) {
  const double value = node.number_or(0);
  return value > 0 ? value : 0;
}

/// The processor time of a phase over the time that it took.
double share(const JsonNode& processor, const char* phase, double taken_s) {
  const bool known = !processor.missing() && seconds(processor["backward_s"]) > 0;
  return known && taken_s > 0 ? std::min(1.0, seconds(processor[phase]) / taken_s) : 1;
}

/// The phases of every step of every rank; of a file without them, the means.
std::vector<std::vector<RecordedStep>> steps_of(const JsonNode& run) {
  const bool is_own = run["recorded"].missing();
  std::vector<std::vector<RecordedStep>> ranks;
  for (const JsonNode& rank : run["breakdown"]["ranks"].elements()) {
    std::vector<RecordedStep>& steps = ranks.emplace_back();
    const JsonNode series = rank["steps"], means = rank["phases"], processor = rank["processor"];
    const bool has_steps = !series.missing() && !series["forward_s"].missing();
    const auto times = [&](const char* phase) {
      return has_steps ? series[phase].numbers() : std::vector{means[phase].number_or(0)};
    };
    const std::vector<double> input_s = times("input_s"), other_s = times("other_s"),
                              forward_s = times("forward_s"), backward_s = times("backward_s"),
                              optimizer_s = times("optimizer_s");
    const size_t count =
        std::min({input_s.size(), other_s.size(), forward_s.size(), backward_s.size(), optimizer_s.size()});
    const auto mean_s = [&](const char* phase) { return seconds(means[phase]); };
    const double before =
        share(processor, "before_s", mean_s("input_s") + mean_s("forward_s") + mean_s("other_s"));
    const double backward = share(processor, "backward_s", mean_s("backward_s"));
    const double optimizer = is_own ? 0 : share(processor, "optimizer_s", mean_s("optimizer_s"));
    const double step_s = mean_s("step_s") > 0 ? mean_s("step_s") : kLongestStep_s;
    double sum_s = 0;
    for (size_t i = 0; i < count; ++i) {
      const double before_s =
          std::max(0.0, input_s[i]) + std::max(0.0, forward_s[i]) + std::max(0.0, other_s[i]);
      sum_s += before_s + std::max(0.0, backward_s[i]) + std::max(0.0, optimizer_s[i]);
      steps.push_back({.before_s = before * before_s,
                       .backward_s = backward * std::max(0.0, backward_s[i]),
                       .optimizer_s = optimizer * std::max(0.0, optimizer_s[i])});
    }
    if (!(sum_s <= kMostOfStep * static_cast<double>(count) * std::min(step_s, kLongestStep_s)))
      means["step_s"].refuse(fmt::format("the time of steps whose phases take {:.3g} s", sum_s));
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
        {.elements = elements, .ready = backward_s > 0 ? std::clamp(ready_s / backward_s, 0.0, 1.0) : 1});
  }
  return gradients;
}

/// Samples of a rank in a step.
int64_t batch_of(const JsonNode& run) {
  const int64_t batch = run["batch_per_rank"].whole(1, kMostBatch);
  const JsonNode passes = run["accumulate"];
  return passes.missing() ? batch : batch * passes.whole(1, kMostBatch / batch);
}

/// Those that the trace of a recorded training shows one by one, or else its buckets.
std::vector<RecordedGradient> gradients_of(const JsonNode& run) {
  const JsonNode recorded = run["recorded"], breakdown = run["breakdown"];
  if (breakdown.missing() || breakdown["ranks"].elements().empty()) return {};
  if (recorded.missing() || recorded["gradients"].elements().empty()) return gradients_of_buckets(breakdown);
  const double backward_s = seconds(breakdown["ranks"].elements().front()["phases"]["backward_s"]);
  double last_s = 0;
  for (const JsonNode& gradient : recorded["gradients"].elements())
    last_s = std::max(last_s, seconds(gradient["after_backward_s"]));
  std::vector<RecordedGradient> gradients;
  for (const JsonNode& gradient : recorded["gradients"].elements()) {
    // Times are those of the last of several backward passes.
    const double before_end_s = last_s - seconds(gradient["after_backward_s"]);
    gradients.push_back({.elements = gradient["elements"].whole(1, kMostElements),
                         .ready = backward_s > 0 ? std::max(0.0, 1 - before_end_s / backward_s) : 1});
  }
  std::ranges::stable_sort(gradients, {}, &RecordedGradient::ready);
  return gradients;
}

/// A row that could be replayed.
using Candidate = std::pair<JsonNode, std::vector<RecordedGradient>>;

/// Where all rows are of one training, leaves those with the most ranks.
void keep_most_ranks(std::vector<Candidate>& rows) {
  const auto job_of = [](const Candidate& row) {
    const JsonNode& run = row.first;
    return std::tuple(run["model"].text(), run["strategy"].text_or(""),
                      run["batch_per_rank"].whole(1, kMostBatch), batch_of(run));
  };
  const auto ranks_of = [](const Candidate& row) { return row.first["ranks"].count(1); };
  const auto is_other = [&](const Candidate& row) { return job_of(row) != job_of(rows.front()); };
  if (std::ranges::any_of(rows, is_other)) return;
  const int most = ranks_of(*std::ranges::max_element(rows, {}, ranks_of));
  std::erase_if(rows, [&](const Candidate& row) { return ranks_of(row) < most; });
}

}  // namespace

RecordedTraining read_recorded_training(const std::string& path) {
  const std::string text = read_file(path);
  const nlohmann::json document = parse_json(text, path);
  const JsonNode record = JsonNode(document, path)["lockstep"];
  std::vector<Candidate> found;
  for (const JsonNode& run : record["runs"].elements()) {
    if (auto gradients = gradients_of(run); !gradients.empty()) found.emplace_back(run, std::move(gradients));
  }
  const auto refuse = [&](const std::string& what, const std::string& advice) {
    throw Error(fmt::format("'{}' {}", path, what), advice);
  };
  if (found.empty()) {
    refuse(
        "has no row that says when which gradients were final, which a replay needs",
        "Record a training with 'lockstep record', import its traces, or measure a strategy with 'lockstep "
        "bench --breakdown --ranks 2'.");
  }
  keep_most_ranks(found);
  if (found.size() > 1) {
    refuse(fmt::format("has {} rows that could be replayed, and one is needed", found.size()),
           "Measure or import the one that is wanted into a file of its own.");
  }
  const auto& [run, gradients] = found.front();
  RecordedTraining training{.path = path,
                            .name = run["model"].text(),
                            .unit = run["unit"].text_or("image"),
                            .batch = batch_of(run),
                            .gradients = gradients,
                            .ranks = steps_of(run),
                            .on_processor = run["device"].text_or("cpu") == "cpu"};
  const bool even = std::ranges::all_of(training.ranks, [&](const auto& steps) {
    return !steps.empty() && steps.size() == training.ranks.front().size();
  });
  if (!even) refuse("does not have the phases of as many steps of all ranks", "Measure or record it again.");
  return training;
}

}  // namespace lockstep::network_file
