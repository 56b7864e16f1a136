#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/plots/numbers.h"
#include "lockstep/plots/phase_looks.h"
#include "lockstep/plots/summary.h"

namespace lockstep::plots {
namespace {

using results::PhaseTimes;
using results::Run;

constexpr size_t kMostPublished = 3;
constexpr size_t kMostOthers = 5;
/// Smaller shares of a step are not worth a sentence.
constexpr double kWorthSaying = 0.005;

/// "a", "a and b", "a, b and c".
std::string joined(const std::vector<std::string>& parts) {
  if (parts.size() < 2) return parts.empty() ? "" : parts[0];
  return fmt::format("{} and {}", fmt::join(parts.begin(), parts.end() - 1, ", "), parts.back());
}

/// The cost of communication in this run, and how much of it was hidden.
std::string communication_sentence(const Run& run) {
  const PhaseTimes& mean = run.breakdown->mean;
  const double exposed = mean.exposed_s() / mean.step_s;
  const std::string at = counted(run.ranks, "rank");
  if (!(exposed > kWorthSaying))
    return fmt::format("At {} next to nothing of the step is exposed communication.", at);
  std::string text = positive(run.efficiency)
                         ? fmt::format("At {} {} efficient: ", at, percent_text(*run.efficiency))
                         : fmt::format("At {} ", at);
  text += fmt::format("{} of the step is exposed communication ({} waiting for other ranks, {} transfer)",
                      percent_text(exposed), percent_text(mean.waiting_s / mean.step_s),
                      percent_text(mean.transfer_s / mean.step_s));
  const auto overlap = run.breakdown->overlap();
  if (positive(overlap)) {
    text +=
        fmt::format("; {} of all communication was hidden behind the backward pass", percent_text(*overlap));
  }
  return text + ".";
}

/// The three longest phases of a mean step.
std::string phases_sentence(const PhaseTimes& mean) {
  std::vector<const PhaseLook*> looks = phases_in({&mean});
  std::ranges::stable_sort(looks, std::greater(), [&](const PhaseLook* look) { return mean.*look->seconds; });
  std::vector<std::string> parts;
  for (const PhaseLook* look : looks) {
    if (parts.size() == 3) break;
    parts.push_back(fmt::format("{} ({})", look->name, percent_text(mean.*look->seconds / mean.step_s)));
  }
  return fmt::format("A step takes {} on average in the breakdown run, most of it {}.",
                     time_text(mean.step_s), joined(parts));
}

/// The factors whose product is the efficiency, smallest first; empty if none is worth a sentence.
std::string factors_sentence(const Run& run) {
  struct Cause {
    double factor;
    std::string words;
  };
  const results::EfficiencyFactors& factors = *run.factors;
  std::array<Cause, 4> causes{{{factors.machine, "sharing the machine"},
                               {factors.strategy, "the strategy's own work beside computing"},
                               {factors.transfer, "transfer that nothing hides"},
                               {factors.stragglers, "waiting for the slowest rank"}}};
  std::ranges::stable_sort(causes, {}, &Cause::factor);
  std::vector<std::string> parts;
  for (const Cause& cause : causes) {
    if (!positive(cause.factor) || std::abs(1 - cause.factor) < kWorthSaying) continue;
    parts.push_back(fmt::format("{} {}", cause.words, percent_text(cause.factor)));
  }
  if (parts.empty()) return "";
  std::string text = fmt::format("The efficiency{} is a product of factors: {}.",
                                 positive(run.efficiency) ? " of " + percent_text(*run.efficiency) : "",
                                 fmt::join(parts, " × "));
  if (factors.machine > 1 + kWorthSaying) {
    text += run.ranks > 1
                ? " Ranks that share the machine were faster than one alone: the baseline was disturbed."
                : " The baseline was disturbed.";
  }
  return text;
}

/// The median step with its interval, or the reason why it has none.
std::string certainty_sentence(const Run& run) {
  if (!run.step_interval_s || !positive(run.step_s.p50)) return "";
  const results::Interval& interval = *run.step_interval_s;
  if (!interval.missing.empty()) return fmt::format("How sure that is cannot be said: {}.", interval.missing);
  if (!positive(interval.low) || !positive(interval.high)) return "";
  return fmt::format(
      "The median step of the throughput run, another one, is {}, with a 95 % interval from {} to {} (±{}).",
      time_text(*run.step_s.p50), time_text(interval.low), time_text(interval.high),
      percent_text((interval.high - interval.low) / 2 / *run.step_s.p50));
}

std::string memory_sentence(const Run& run) {
  if (!run.resources || run.resources->peak_memory_bytes.empty()) return "";
  const int64_t most = std::ranges::max(run.resources->peak_memory_bytes);
  if (most <= 0) return "";
  return fmt::format("A rank took up to {} of memory.", format_bytes(most));
}

/// "412 images/s (7.8 % less)".
std::string relative(double rate, double than) {
  const double change = rate / than - 1;
  if (std::abs(change) < 0.0005) return fmt::format("{} images/s (the same)", number_text(rate));
  return fmt::format("{} images/s ({} {})", number_text(rate), percent_text(std::abs(change)),
                     change > 0 ? "more" : "less");
}

/// Other strategies of the same file at the same number of ranks.
std::string others_sentence(const std::vector<LabelledRun>& runs, const LabelledRun& run) {
  std::vector<std::string> parts;
  for (const LabelledRun& other : runs) {
    if (other.run == run.run || other.control || !other.run->finished() || other.record != run.record ||
        other.run->ranks != run.run->ranks)
      continue;
    if (other.run->model != run.run->model || !positive(other.run->images_per_s) ||
        parts.size() == kMostOthers)
      continue;
    parts.push_back(
        fmt::format("{} {}", other.label, relative(other.run->images_per_s, run.run->images_per_s)));
  }
  if (parts.empty()) return "";
  return fmt::format("Beside {} at {}: {}.", run.label, counted(run.run->ranks, "rank"),
                     fmt::join(parts, "; "));
}

/// The key of the run's curve without the index of its record, which is its first line.
std::string work_of(const LabelledRun& run) {
  return run.curve.substr(run.curve.find('\n'));
}

/// The same row in other files.
void compare_records(const Sources& sources, const std::vector<LabelledRun>& runs, const LabelledRun& run,
                     std::vector<std::string>& sentences) {
  bool some = false;
  for (const LabelledRun& other : runs) {
    if (other.record == run.record || other.run->ranks != run.run->ranks || work_of(other) != work_of(run))
      continue;
    if (!positive(other.run->images_per_s)) continue;
    sentences.push_back(fmt::format("The same in {}: {}.", sources.records[other.record].name,
                                    relative(other.run->images_per_s, run.run->images_per_s)));
    some = true;
  }
  if (some)
    sentences.push_back("Whether such a difference is more than noise is what `lockstep diff` tells.");
}

/// Published results of the same network on as many workers; at most kMostPublished.
void compare_published(const Sources& sources, const LabelledRun& run, std::vector<std::string>& sentences) {
  size_t said = 0;
  for (const NamedRecord& named : sources.published) {
    for (const LabelledRun& other : labelled_runs({&named, 1})) {
      const std::optional<double> speedup = shown_speedup(*other.run);
      if (other.run->model != run.run->model || other.run->ranks != run.run->ranks || other.control ||
          !positive(speedup) || said == kMostPublished)
        continue;
      sentences.push_back(fmt::format("Published in {}, {}: {} times at {}, {} efficient.", named.name,
                                      other.label, number_text(speedup), counted(other.run->ranks, "worker"),
                                      percent_text(*speedup / other.run->ranks)));
      ++said;
    }
  }
}

}  // namespace

std::vector<std::string> explain(const Run& run) {
  std::vector<std::string> sentences;
  const auto add = [&](std::string sentence) {
    if (!sentence.empty()) sentences.push_back(std::move(sentence));
  };
  if (run.breakdown && positive(run.breakdown->mean.step_s)) {
    if (run.ranks > 1) add(communication_sentence(run));
    add(phases_sentence(run.breakdown->mean));
    const std::optional<int> straggler = run.breakdown->straggler;
    if (straggler && *straggler >= 0 && *straggler < run.ranks) {
      add(fmt::format("The others waited for rank {} most.", *straggler));
    }
  }
  if (run.factors) add(factors_sentence(run));
  add(certainty_sentence(run));
  add(memory_sentence(run));
  return sentences;
}

std::vector<std::string> compare(const Sources& sources, const LabelledRun& run) {
  std::vector<std::string> sentences;
  if (!positive(run.run->images_per_s)) return sentences;
  const std::vector<LabelledRun> runs = labelled_runs(sources);
  if (std::string sentence = others_sentence(runs, run); !sentence.empty())
    sentences.push_back(std::move(sentence));
  compare_records(sources, runs, run, sentences);
  compare_published(sources, run, sentences);
  return sentences;
}

}  // namespace lockstep::plots
