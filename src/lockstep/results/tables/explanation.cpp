
#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/results/tables/diff.h"
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
      "The median step of the throughput run, a separate one, is {}, with a 95 % interval from {} to {} "
      "(±{}).",
      time_text(*run.step_s.p50), time_text(interval.low), time_text(interval.high),
      share_text((interval.high - interval.low) / 2 / *run.step_s.p50));
}

/// "412 images/s (7.8 % less)".
std::string relative(const Run& run, double than) {
  const double change = run.images_per_s / than - 1;
  const std::string rate = fmt::format("{} {}", number_text(run.images_per_s), run.rate_unit());
  if (std::abs(change) < 0.0005) return rate + " (the same)";
  return fmt::format("{} ({} {})", rate, share_text(std::abs(change)), change > 0 ? "more" : "less");
}

/// Adds the runs of the same record on as many ranks that are nearest in speed, in one sentence, the fastest
/// first.
void compare_own(const Sources& sources, const LabelledRun& run, std::vector<std::string>& sentences) {
  std::vector<LabelledRun> others = labelled_runs(sources);
  std::erase_if(others, [&](const LabelledRun& other) {
    return other.run == run.run || other.record != run.record || other.control || !other.run->finished() ||
           other.run->model != run.run->model || other.run->ranks != run.run->ranks ||
           !positive(other.run->images_per_s);
  });
  if (others.empty()) return;
  const double own = run.run->images_per_s;
  const size_t all = others.size();
  std::ranges::stable_sort(others, {},
                           [&](const LabelledRun& other) { return std::abs(other.run->images_per_s - own); });
  others.resize(std::min(kMostOthers, all));
  std::ranges::stable_sort(others, std::greater(),
                           [](const LabelledRun& other) { return other.run->images_per_s; });
  std::vector<std::string> words;
  for (const LabelledRun& other : others)
    words.push_back(fmt::format("{} {}", other.label_in_network, relative(*other.run, own)));
  if (all > kMostOthers) words.push_back(fmt::format("{} further away", all - kMostOthers));
  sentences.push_back(fmt::format("Beside {} at {}: {}.", run.label, counted(run.run->ranks, "rank"),
                                  fmt::join(words, "; ")));
}

/// What a published row of as many ranks computes otherwise: "batch 64, images of 224"; empty: nothing known.
std::string differences_of(const Run& published, const Run& own) {
  std::vector<std::string> words;
  if (published.model != own.model) words.push_back(published.model);
  if (published.batch_per_rank != own.batch_per_rank)
    words.push_back(fmt::format("batch {}", published.batch_per_rank));
  if (published.image_size > 0 && own.image_size > 0 && published.image_size != own.image_size)
    words.push_back(fmt::format("images of {}", published.image_size));
  return fmt::format("{}", fmt::join(words, ", "));
}

/// Adds published results of the same network, or of the one that it is a variant of (resnet50 of
/// resnet50_v1), on as many ranks; at most kMostPublished, those that differ least first.
void compare_published(const Sources& sources, const Run& run, std::vector<std::string>& sentences) {
  std::vector<std::pair<std::string, std::string>> found;
  for (const NamedRecord& named : sources.published) {
    for (const LabelledRun& other : labelled_runs({&named, 1})) {
      const std::optional<double> speedup = shown_speedup(*other.run);
      const std::string& model = other.run->model;
      if ((run.model != model && !run.model.starts_with(model + "_")) || other.run->ranks != run.ranks ||
          other.control || !positive(speedup))
        continue;
      const std::string differences = differences_of(*other.run, run);
      found.emplace_back(
          differences,
          fmt::format("Published in {}, {}: {} times at {}, {} efficient{}.", named.name, other.label,
                      number_text(speedup), counted(run.ranks, "rank"), share_text(*speedup / run.ranks),
                      differences.empty() ? "" : "; there " + differences));
    }
  }
  std::ranges::stable_sort(found, {}, [](const auto& each) { return each.first.size(); });
  for (size_t i = 0; i < std::min(kMostPublished, found.size()); ++i) sentences.push_back(found[i].second);
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

/// "6 epochs of 53 steps: loss 0.12; 96 % of the training samples recognized, and 95 % of others."
std::string training_sentence(const TrainingRecord& training) {
  if (training.epochs.empty()) return "no epoch has ended.";
  const EpochRecord& last = training.epochs.back();
  std::string text = fmt::format("{} ({}), loss {}", counted(last.epoch, "epoch"),
                                 counted(last.steps, "step"), number_text(last.loss));
  if (last.training_accuracy)
    text += fmt::format("; {} of the training samples recognized", share_text(last.training_accuracy));
  if (last.evaluation_accuracy)
    text += fmt::format(", {} of the evaluation samples", share_text(last.evaluation_accuracy));
  return text + ".";
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

std::optional<LabelledRun> headline_run(std::span<const NamedRecord> records) {
  std::optional<LabelledRun> best;
  for (const LabelledRun& run : labelled_runs(records)) {
    if (!positive(run.run->images_per_s) || (best && best->record != run.record)) continue;
    if (!best || weight_of(run) > weight_of(*best)) best = run;
  }
  return best;
}

Document explanation(const Sources& sources) {
  Document document;
  std::vector<std::string> findings;
  if (const auto run = headline_run(sources.records)) {
    document.add(Heading{"Summary"});
    const NamedRecord& base = sources.records[run->record];
    for (const NamedRecord& other : sources.records) {
      if (&other != &base && !all_published(sources.records)) document.append(verdicts(base, other));
    }
    const std::string name = sources.records.size() > 1 ? base.name + ": " : "";
    document.add(Remark{name, headline_of(*run)});
    findings = explain(*run->run);
    add_other_models(sources, *run, findings);
    compare_own(sources, *run, findings);
    compare_published(sources, *run->run, findings);
  } else if (!sources.records.empty() && !all_trainings(sources.records)) {
    document.add(Remark{"", "No run in it has a rate."});
  }
  for (const NamedRecord& named : sources.records) {
    if (named.record.training)
      document.add(Remark{named.name + ": ", training_sentence(*named.record.training)});
  }
  if (!all_trainings(sources.records)) add_gaps(sources, findings);
  if (!findings.empty()) document.add(List{std::move(findings)});
  return document;
}

}  // namespace lockstep::results
