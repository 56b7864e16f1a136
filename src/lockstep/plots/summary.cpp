#include "lockstep/plots/summary.h"

#include <algorithm>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "lockstep/plots/numbers.h"
#include "lockstep/plots/text.h"
#include "lockstep/results/tables/notices.h"

namespace lockstep::plots {
namespace {

using results::Run;
using results::Warning;

/// Whether there is no run of the user's own, but some that others published.
bool all_published(const Sources& sources) {
  return !sources.records.empty() && std::ranges::all_of(sources.records, [](const NamedRecord& named) {
    return named.record.source == results::kPublished;
  });
}

/// "How resnet50 scales".
std::string title_of(const Sources& sources) {
  std::set<std::string> models;
  for (const NamedRecord& named : sources.records) {
    for (const Run& run : named.record.runs) {
      if (!run.model.empty()) models.insert(clip(run.model, 40));
    }
  }
  if (all_published(sources)) return "Published results";
  if (models.empty()) return "No results";
  // More names than three would not fit a heading.
  if (models.size() > 3) return fmt::format("How {} networks scale", models.size());
  return fmt::format("How {} {}", fmt::join(models, ", "), models.size() == 1 ? "scales" : "scale");
}

/// "one rank without a strategy", or "2 ranks with ddp".
std::string baseline_words(const Run& run) {
  if (!run.baseline) return "the baseline";
  if (run.baseline->strategy == results::kSingle && run.baseline->ranks == 1)
    return "one rank without a strategy";
  return fmt::format("{} with {}", counted(run.baseline->ranks, "rank"), run.baseline->strategy);
}

/// One sentence: network, batch, strategy, ranks, rate, and the speed-up where it is known.
std::string headline_of(const LabelledRun& run) {
  const Run& found = *run.run;
  std::string text = fmt::format(
      "{}, {} {} per rank, {} at {}: {} {}s per second", clip(found.model, 60),
      count_text(found.batch_per_rank), found.units_per_sample == 1 ? found.unit + "s" : "samples",
      clip(found.strategy, 60), counted(found.ranks, "rank"), number_text(found.images_per_s), found.unit);
  if (positive(found.speedup) && positive(found.efficiency) && found.strategy != results::kSingle) {
    text += fmt::format(", {} times {}, so {} efficient", number_text(found.speedup), baseline_words(found),
                        percent_text(found.efficiency));
  }
  return text + ".";
}

/// Up to five numbers; those that are unknown are left out.
std::vector<KeyFigure> figures_of(const LabelledRun& run) {
  const Run& found = *run.run;
  const std::string at = counted(found.ranks, "rank");
  std::vector<KeyFigure> figures{
      {number_text(found.images_per_s), fmt::format("{}s per second at {}", found.unit, at)}};
  if (positive(found.speedup) && found.strategy != results::kSingle) {
    figures.push_back(
        {number_text(found.speedup) + " ×", fmt::format("the speed of {}", baseline_words(found))});
  }
  if (positive(found.efficiency) && found.strategy != results::kSingle)
    figures.push_back({percent_text(found.efficiency), fmt::format("efficient at {}", at)});
  if (found.breakdown && positive(found.breakdown->mean.step_s) && found.ranks > 1) {
    const double exposed = found.breakdown->mean.exposed_s() / found.breakdown->mean.step_s;
    figures.push_back({percent_text(exposed), "of a step is exposed communication"});
  }
  if (positive(found.step_s.p50)) figures.push_back({time_text(found.step_s.p50), "median step"});
  return figures;
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

/// Loud ones first; each once, since files of one sweep share theirs.
void add_cautions(const Sources& sources, std::vector<Warning>& cautions) {
  std::set<std::string> known;
  const bool several = sources.records.size() > 1;
  for (const NamedRecord& named : sources.records) {
    const std::string file = several ? named.name + ": " : "";
    const auto add = [&](const Warning& warning) {
      const std::string text = file + warning.text;
      if (known.insert(text).second) cautions.push_back({text, warning.advice, warning.loud});
    };
    if (!named.record.incomplete.empty()) {
      add({"The run ended before all was measured: " + named.record.incomplete,
           "Rows that are missing were not measured.", true});
    }
    std::ranges::for_each(results::warnings_of_record(named.record), add);
    std::ranges::for_each(results::warnings_of_rows(named.record), add);
  }
  std::ranges::stable_sort(cautions, std::greater(), &Warning::loud);
}

/// Data that no run has, each with the command that measures it.
void add_gaps(const Sources& sources, std::vector<std::string>& gaps) {
  const auto none = [&](auto has) {
    for (const NamedRecord& named : sources.records) {
      if (std::ranges::any_of(named.record.runs, has)) return false;
    }
    return true;
  };
  if (sources.records.empty() || all_published(sources)) {
    gaps.push_back("No run of your own: `lockstep bench --json FILE` measures one.");
    return;
  }
  if (none([](const Run&) { return true; })) {
    gaps.push_back("The file has no run in it: `lockstep bench --json FILE` measures some.");
    return;
  }
  if (none([](const Run& run) { return run.breakdown.has_value(); })) {
    gaps.push_back(
        "Where the time of a step goes is not in the file: `lockstep bench --breakdown --json FILE` measures "
        "it.");
  }
  if (none([](const Run& run) { return run.step_interval_s && run.step_interval_s->missing.empty(); })) {
    gaps.push_back(
        "No 95 % interval is in the file: measure more steps, or several launches with `lockstep bench "
        "--repeat 5`.");
  }
  if (none([](const Run& run) { return run.speedup.has_value(); })) {
    gaps.push_back(
        "Speed-up and efficiency need the rate of one rank without a strategy, which `lockstep bench --ranks "
        "1,2,4` measures with the rest.");
  } else if (none([](const Run& run) { return run.factors.has_value(); })) {
    gaps.push_back(
        "What the efficiency is lost to needs a breakdown and the `independent` control: `lockstep bench "
        "--breakdown`.");
  }
}

/// Subject of the headline: the fastest run with the most ranks in the first record that has any; a control
/// only if there is nothing else.
std::optional<LabelledRun> headline_run(const Sources& sources) {
  std::optional<LabelledRun> best;
  for (const LabelledRun& run : labelled_runs(sources)) {
    if (!positive(run.run->images_per_s) || (best && best->record != run.record)) continue;
    if (!best || weight_of(run) > weight_of(*best)) best = run;
  }
  return best;
}

}  // namespace

Summary summarize(const Sources& sources) {
  Summary summary{.title = title_of(sources)};
  if (const auto run = headline_run(sources)) {
    summary.headline = headline_of(*run);
    summary.figures = figures_of(*run);
    summary.findings = explain(*run->run);
    add_other_models(sources, *run, summary.findings);
    for (std::string& sentence : compare(sources, *run)) summary.findings.push_back(std::move(sentence));
  } else if (sources.records.empty()) {
    summary.headline = "Nothing was given to report on.";
  } else {
    summary.headline = "No run in it has a rate.";
  }
  add_cautions(sources, summary.cautions);
  add_gaps(sources, summary.gaps);
  return summary;
}

}  // namespace lockstep::plots
