#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/units.h"
#include "lockstep/results/record/baseline.h"
#include "lockstep/results/tables/document.h"
#include "lockstep/results/tables/tables.h"

namespace lockstep::results {
namespace {

constexpr size_t kMostCauses = 3;
constexpr size_t kMostGroups = 6;
/// A smaller share of a step is called hidden.
constexpr double kHidden = 0.02;
/// Times that differ by more are not taken for each other.
constexpr double kDiffers = 0.1;

/// " for rank 1 (rank 1's input takes 25 ms longer)": one rank, or several in turn.
std::string waited_for(const Run& run, const std::vector<Cause>& causes) {
  const auto late = std::ranges::find_if(causes, [](const Cause& cause) {
    return cause.kind == Cause::Kind::kSlowRank || cause.kind == Cause::Kind::kUnequalBatches;
  });
  const std::string why = late == causes.end() ? "" : fmt::format(" ({})", late->text);
  if (run.breakdown->straggler) return fmt::format(" for rank {}{}", *run.breakdown->straggler, why);
  if (!why.empty()) return why;
  return run.breakdown->mean.waiting_s < kHidden * run.breakdown->mean.step_s
             ? ""
             : " for others, who change from step to step";
}

/// "28 ms waiting for rank 1 (rank 1's input takes 25 ms longer), 9 ms transfer".
std::string exposed_parts(const Run& run, const std::vector<Cause>& causes) {
  const PhaseTimes& mean = run.breakdown->mean;
  if (!(mean.waiting_s > 0)) return fmt::format("{} of transfer", time_text(mean.transfer_s));
  return fmt::format("{} waiting{}, {} transfer", time_text(mean.waiting_s), waited_for(run, causes),
                     time_text(mean.transfer_s));
}

/// Whether the traces have collectives.
bool has_communication(const Run& run) {
  return !run.recorded->groups.empty() || run.breakdown->communication_s > 0 ||
         std::ranges::any_of(run.recorded->work,
                             [](const RecordedWork& work) { return work.communication_s > 0; });
}

/// Whether ranks train without each other: no strategy was seen that would have collectives.
bool trains_apart(const Run& run) {
  return run.ranks > 1 && run.strategy == "recorded" && !has_communication(run);
}

/// "2 ranks: 412 samples/s (38.8 ms a step)"; the mean, and the median where that is far from it.
std::string rate_text(const Run& run) {
  std::string text =
      fmt::format("{}: {} {}", counted(run.ranks, "rank"), number_text(run.images_per_s), run.rate_unit());
  if (run.samples.empty() || !run.step_s.p50) return text;
  const double mean_s = run.elapsed_s / static_cast<double>(run.samples.size());
  const bool far = std::abs(*run.step_s.p50 / mean_s - 1) > kDiffers;
  return text + fmt::format(" ({} a step{})", time_text(mean_s),
                            far ? fmt::format(" on average, median {}", time_text(run.step_s.p50)) : "");
}

/// "; of a step's 62.4 ms in the profiler's window, 48 ms are input, ..."; steps of the window are named
/// where they take another time than those of the rate.
std::string phases_text(const Run& run, const std::vector<Cause>& causes) {
  const PhaseTimes& mean = run.breakdown->mean;
  const bool differs = std::abs(run.recorded->window_cost.value_or(1) - 1) > kDiffers;
  const std::string window = differs ? " in the profiler's window" : "";
  if (run.ranks == 1 || !has_communication(run)) {
    return fmt::format("; of a step's {}{}, {} are input, {} forward, {} backward and {} optimizer",
                       time_text(mean.step_s), window, time_text(mean.input_s), time_text(mean.forward_s),
                       time_text(mean.backward_s), time_text(mean.optimizer_s));
  }
  const double share = mean.exposed_s() / mean.step_s;
  const std::string step = differs ? fmt::format("a step of {}{}", time_text(mean.step_s), window) : "a step";
  if (share < kHidden)
    return fmt::format("; communication is hidden: {} of {} is exposed", share_text(share), step);
  return fmt::format("; {} of {} is exposed communication: {}", share_text(share), step,
                     exposed_parts(run, causes));
}

std::string first_sentence(const Run& run, const std::vector<Cause>& causes) {
  std::string text = rate_text(run);
  if (!run.breakdown) return text + ".";
  if (trains_apart(run)) {
    return text +
           fmt::format(
               "; nothing was communicated in the {} of the window, so that the ranks train networks of "
               "their own, or the same one {} times.",
               counted(run.recorded->steps, "step"), run.ranks);
  }
  if (positive(run.speedup) && run.role() != Role::kBaseline && run.doubt.empty()) {
    text = fmt::format("{} reach {} times one, so {} efficient", counted(run.ranks, "rank"),
                       number_text(run.speedup), share_text(run.efficiency));
  }
  const auto has = [&](const char* kind) {
    return std::ranges::find(run.recorded->collectives, kind, &RecordedCollective::kind) !=
           run.recorded->collectives.end();
  };
  if (has("all-to-all") && has("all-reduce")) text = "hybrid parallel, " + text;
  return text + phases_text(run, causes) + ".";
}

/// "6 of evaluation, 1 incomplete".
std::string left_out_text(const Recorded& recorded) {
  std::vector<std::string> parts;
  for (const auto& [count, words] :
       {std::pair(recorded.evaluation_steps, "of evaluation"),
        {recorded.incomplete_steps, "incomplete at an end of the window"},
        {recorded.irregular_steps, "with other collectives or not on all ranks"}}) {
    if (count > 0) parts.push_back(fmt::format("{} {}", count, words));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// "In the window a step takes 1.50 times as long [1.42, 1.58]."
std::string cost_text(const Recorded& recorded) {
  if (!recorded.window_cost) return "";
  std::string text =
      fmt::format(" In its window a step takes {:.2f} times as long as outside", *recorded.window_cost);
  const auto& interval = recorded.window_cost_interval;
  if (interval && interval->missing.empty())
    text += fmt::format(" [{:.2f}, {:.2f}]", interval->low, interval->high);
  return text + ".";
}

std::string recorded_line(const Run& run) {
  const Recorded& recorded = *run.recorded;
  std::string text = recorded.by;
  constexpr size_t kMostNamed = 8;
  const size_t ranks = recorded.ranks.size();
  if (ranks < static_cast<size_t>(run.ranks)) {
    text += fmt::format(", {} of {}", counted(static_cast<int64_t>(ranks), "rank"), run.ranks);
    if (ranks <= kMostNamed) text += fmt::format(" ({})", fmt::join(recorded.ranks, ", "));
  } else {
    text += fmt::format(", {}", counted(run.ranks, "rank"));
  }
  text += recorded.steps > 0 ? fmt::format(". Phases are means of {}", counted(recorded.steps, "step"))
                             : ". No rank has a trace: only times of steps are known";
  const std::string left_out = left_out_text(recorded);
  if (!left_out.empty()) text += fmt::format("; left out: {}", left_out);
  return text + "." + cost_text(recorded);
}

}  // namespace

std::vector<std::string> recorded_sentences(const RunRecord& record, const Run& run) {
  const std::vector<Cause> causes = causes_of(run);
  std::vector<std::string> sentences{fmt::format("{}, {}", run.model, first_sentence(run, causes))};
  for (size_t i = 0; i < std::min(kMostCauses, causes.size()); ++i) {
    std::string text = causes[i].text;
    text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
    if (causes[i].lost_s > 0)
      text += fmt::format(" ({} of a step)", share_text(causes[i].lost_s / run.breakdown->mean.step_s));
    sentences.push_back(fmt::format("{}. {}", text, causes[i].advice));
  }
  if (!run.breakdown) return sentences;
  if (run.recorded->steps < kFewestSteps)
    sentences.emplace_back("A cause needs three steps or more: record a longer window.");
  if (trains_apart(run)) {
    sentences.emplace_back(
        "Wrap the model in DistributedDataParallel, and give the DataLoader a DistributedSampler.");
    return sentences;
  }
  if (run.ranks > 1 && !run.speedup) {
    sentences.emplace_back(
        "Speed-up and efficiency need one rank of the same script: record it, and add it with "
        "`lockstep import ... --alone`.");
  } else if (run.ranks > 1 && run.factors && independent_of(record, run) == nullptr) {
    sentences.emplace_back(
        "The factor machine has what the strategy itself costs in it: only ranks that train at the "
        "same time without communication would tell them apart.");
  }
  return sentences;
}

Document recorded_remarks(const RunRecord& record) {
  Document document;
  for (const Run& run : record.runs) {
    if (!run.recorded) continue;
    document.add(Remark{"Recorded: ", recorded_line(run), true});
    const auto& groups = run.recorded->groups;
    for (size_t i = 0; i < std::min(kMostGroups, groups.size()); ++i) {
      const std::string name = groups[i].name.empty() ? "Process groups without a name"
                                                      : fmt::format("Process group {}", groups[i].name);
      document.add(
          Remark{"", fmt::format("{}{}: {} in a step of a rank.", name,
                                 groups[i].ranks.empty() ? "" : fmt::format(" of ranks {}", groups[i].ranks),
                                 groups[i].collectives)});
    }
    if (groups.size() > kMostGroups)
      document.add(Remark{"", fmt::format("{} more process groups.", groups.size() - kMostGroups)});
    for (const std::string& note : run.recorded->notes) document.add(Remark{"", note});
  }
  return document;
}

}  // namespace lockstep::results
