
#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/results/tables/numbers.h"
#include "lockstep/results/tables/tables.h"

namespace lockstep::results {
namespace {

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
                         ? fmt::format("At {} {} efficient: ", at, share_text(*run.efficiency))
                         : fmt::format("At {} ", at);
  text += fmt::format("{} of the step is exposed communication ({} waiting for other ranks, {} transfer)",
                      share_text(exposed), share_text(mean.waiting_s / mean.step_s),
                      share_text(mean.transfer_s / mean.step_s));
  const auto overlap = run.breakdown->overlap();
  if (positive(overlap)) {
    text +=
        fmt::format("; {} of all communication was hidden behind the backward pass", share_text(*overlap));
  }
  return text + ".";
}

/// The three longest phases of a mean step.
std::string phases_sentence(const PhaseTimes& mean) {
  std::vector<Phase> phases(kPhases.begin(), kPhases.end());
  std::erase_if(phases, [&](const Phase& phase) { return !positive(mean.*phase.seconds); });
  std::ranges::stable_sort(phases, std::greater(), [&](const Phase& phase) { return mean.*phase.seconds; });
  phases.resize(std::min<size_t>(3, phases.size()));
  std::vector<std::string> parts;
  for (const Phase& phase : phases)
    parts.push_back(fmt::format("{} ({})", phase.name, share_text(mean.*phase.seconds / mean.step_s)));
  return fmt::format("A step takes {} on average in the breakdown run, most of it {}.",
                     time_text(mean.step_s), joined(parts));
}

/// The factors whose product is the efficiency, smallest first; empty if none is worth a sentence.
std::string factors_sentence(const Run& run) {
  struct Cause {
    double factor;
    std::string words;
  };
  const EfficiencyFactors& factors = *run.factors;
  std::array<Cause, 4> causes{{{factors.machine, "sharing the machine"},
                               {factors.strategy, "the strategy's own work beside computing"},
                               {factors.transfer, "transfer that nothing hides"},
                               {factors.stragglers, "waiting for the slowest rank"}}};
  std::ranges::stable_sort(causes, {}, &Cause::factor);
  std::vector<std::string> parts;
  for (const Cause& cause : causes) {
    if (!positive(cause.factor) || std::abs(1 - cause.factor) < kWorthSaying) continue;
    parts.push_back(fmt::format("{} {}", cause.words, share_text(cause.factor)));
  }
  if (parts.empty()) return "";
  std::string text = fmt::format("The efficiency{} is a product of factors: {}.",
                                 positive(run.efficiency) ? " of " + share_text(*run.efficiency) : "",
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
  const Interval& interval = *run.step_interval_s;
  if (!interval.missing.empty()) return fmt::format("How sure that is cannot be said: {}.", interval.missing);
  if (!positive(interval.low) || !positive(interval.high)) return "";
  return fmt::format(
      "The median step of the throughput run, another one, is {}, with a 95 % interval from {} to {} (±{}).",
      time_text(*run.step_s.p50), time_text(interval.low), time_text(interval.high),
      share_text((interval.high - interval.low) / 2 / *run.step_s.p50));
}

/// "412 images/s (7.8 % less)".
std::string relative(double rate, double than) {
  const double change = rate / than - 1;
  if (std::abs(change) < 0.0005) return fmt::format("{} images/s (the same)", number_text(rate));
  return fmt::format("{} images/s ({} {})", number_text(rate), share_text(std::abs(change)),
                     change > 0 ? "more" : "less");
}

/// Adds other strategies of the same record on as many ranks, in one sentence, and the same run in other
/// records.
void compare_own(const Sources& sources, const LabelledRun& run, std::vector<std::string>& sentences) {
  std::vector<std::string> others, elsewhere;
  for (const LabelledRun& other : labelled_runs(sources)) {
    if (other.run == run.run || other.run->ranks != run.run->ranks || !positive(other.run->images_per_s))
      continue;
    const std::string rate = relative(other.run->images_per_s, run.run->images_per_s);
    if (other.record != run.record) {
      if (other.work == run.work)
        elsewhere.push_back(fmt::format("The same in {}: {}.", sources.records[other.record].name, rate));
    } else if (!other.control && other.run->finished() && other.run->model == run.run->model &&
               others.size() < kMostOthers) {
      others.push_back(fmt::format("{} {}", other.label, rate));
    }
  }
  if (!others.empty()) {
    sentences.push_back(fmt::format("Beside {} at {}: {}.", run.label, counted(run.run->ranks, "rank"),
                                    fmt::join(others, "; ")));
  }
  if (elsewhere.empty()) return;
  sentences.insert(sentences.end(), elsewhere.begin(), elsewhere.end());
  sentences.push_back("`lockstep diff` decides whether such a difference is more than noise.");
}

/// Adds published results of the same network on as many workers; at most kMostPublished.
void compare_published(const Sources& sources, const Run& run, std::vector<std::string>& sentences) {
  size_t said = 0;
  for (const NamedRecord& named : sources.published) {
    for (const LabelledRun& other : labelled_runs({&named, 1})) {
      const std::optional<double> speedup = shown_speedup(*other.run);
      if (other.run->model != run.model || other.run->ranks != run.ranks || other.control ||
          !positive(speedup) || said == kMostPublished)
        continue;
      sentences.push_back(fmt::format("Published in {}, {}: {} times at {}, {} efficient.", named.name,
                                      other.label, number_text(speedup), counted(run.ranks, "worker"),
                                      share_text(*speedup / run.ranks)));
      ++said;
    }
  }
}

/// Phases of its step, causes of lost efficiency, the rank that the others waited for, the interval of its
/// median, its memory.
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
  if (const int64_t peak = peak_memory_bytes(run); peak > 0)
    add(fmt::format("A rank took up to {} of memory.", format_bytes(peak)));
  return sentences;
}

/// One sentence: network, batch, strategy, ranks, rate, and the speed-up where it is known.
std::string headline_of(const LabelledRun& run) {
  const Run& found = *run.run;
  std::string text = fmt::format("{}, {} {} per rank, {} at {}: {} {}s per second", found.model,
                                 count_text(found.batch_per_rank),
                                 found.units_per_sample == 1 ? found.unit + "s" : "samples", found.strategy,
                                 counted(found.ranks, "rank"), number_text(found.images_per_s), found.unit);
  if (positive(found.speedup) && positive(found.efficiency) && found.strategy != kSingle) {
    text += fmt::format(", {} times {}, so {} efficient", number_text(found.speedup), baseline_words(found),
                        share_text(found.efficiency));
  }
  return text + ".";
}

/// The larger, the better a run stands for its network: how it scales shows at the most ranks.
std::tuple<bool, bool, int, double> weight_of(const LabelledRun& run) {
  return {run.run->finished(), !run.control, run.run->ranks, run.run->images_per_s};
}

/// Adds a sentence on every other network, at its most ranks.
void add_other_models(const Sources& sources, const LabelledRun& headline,
                      std::vector<std::string>& findings) {
  constexpr size_t kMost = 8;
  std::vector<LabelledRun> best;
  for (const LabelledRun& run : labelled_runs(sources)) {
    if (run.control || run.record != headline.record || run.run->model == headline.run->model) continue;
    if (!positive(run.run->images_per_s) || !run.run->finished()) continue;
    const auto known = std::ranges::find_if(
        best, [&](const LabelledRun& each) { return each.run->model == run.run->model; });
    if (known == best.end()) {
      best.push_back(run);
    } else if (weight_of(run) > weight_of(*known)) {
      *known = run;
    }
  }
  for (size_t i = 0; i < std::min(kMost, best.size()); ++i) findings.push_back(headline_of(best[i]));
}

/// Data that no run has, each with the command that measures it.
void add_gaps(const Sources& sources, std::vector<std::string>& gaps) {
  const auto none = [&](auto has) {
    for (const NamedRecord& named : sources.records) {
      if (std::ranges::any_of(named.record.runs, has)) return false;
    }
    return true;
  };
  if (all_published(sources.records)) return;
  if (sources.records.empty()) {
    gaps.push_back("No run of your own: `lockstep bench --json FILE` measures one.");
    return;
  }
  const bool no_breakdown = none([](const Run& run) { return run.breakdown.has_value(); });
  if (no_breakdown) {
    gaps.push_back("Where the time of a step goes was not measured: `lockstep bench --breakdown` does.");
  }
  if (none([](const Run& run) { return run.step_interval_s && run.step_interval_s->missing.empty(); })) {
    gaps.push_back(
        "No row has a 95 % interval: measure more steps, or several launches with `lockstep bench --repeat "
        "5`.");
  }
  if (none([](const Run& run) { return run.speedup.has_value(); })) {
    gaps.push_back(
        "Speed-up and efficiency need the rate of one rank without a strategy, which `lockstep bench --ranks "
        "1,2,4` measures with the rest.");
  } else if (!no_breakdown && none([](const Run& run) { return run.factors.has_value(); })) {
    gaps.push_back(
        "What the efficiency is lost to needs the `independent` control, which `lockstep bench` adds by "
        "itself.");
  }
}

}  // namespace

std::string baseline_words(const Run& run) {
  if (!run.baseline) return "the baseline";
  if (run.baseline->strategy == kSingle && run.baseline->ranks == 1) return "one rank without a strategy";
  return fmt::format("{} with {}", counted(run.baseline->ranks, "rank"), run.baseline->strategy);
}

std::optional<LabelledRun> headline_run(const Sources& sources) {
  std::optional<LabelledRun> best;
  for (const LabelledRun& run : labelled_runs(sources)) {
    if (!positive(run.run->images_per_s) || (best && best->record != run.record)) continue;
    if (!best || weight_of(run) > weight_of(*best)) best = run;
  }
  return best;
}

Document explanation(const Sources& sources) {
  Document document;
  std::vector<std::string> findings;
  if (const auto run = headline_run(sources)) {
    document.add(Heading{"Summary"});
    document.add(Remark{"", headline_of(*run)});
    findings = explain(*run->run);
    add_other_models(sources, *run, findings);
    compare_own(sources, *run, findings);
    compare_published(sources, *run->run, findings);
  } else if (!sources.records.empty()) {
    document.add(Remark{"", "No run in it has a rate."});
  }
  add_gaps(sources, findings);
  if (!findings.empty()) document.add(List{std::move(findings)});
  return document;
}

}  // namespace lockstep::results
