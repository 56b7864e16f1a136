#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/names.h"
#include "lockstep/base/units.h"
#include "lockstep/results/record/baseline.h"
#include "lockstep/results/record/launches.h"
#include "lockstep/results/tables/diff.h"
#include "lockstep/results/tables/document.h"
#include "lockstep/results/tables/row_tables.h"
#include "lockstep/results/tables/tables.h"

namespace lockstep::results {
namespace {

constexpr size_t kMostPublished = 3;
constexpr size_t kMostOthers = 3;
/// Sentences about one's own run, the headline among them.
constexpr size_t kMostSentences = 3;
/// Smaller shares of a step are not worth a sentence.
constexpr double kWorthSaying = 0.005;

/// The commands that go on where a run ends: the user's own, cut to one row.
class NextCommands {
 public:
  NextCommands(const RunRecord& record, const Run& run) : run_(run) {
    const std::vector<std::string>& command = record.command;
    const bool spaces = std::ranges::any_of(
        command, [](const std::string& word) { return word.find_first_of(" '\"`$") != std::string::npos; });
    // The record lacks another launcher's part of the command.
    if (command.size() < 2 || command[1] != "bench" || record.launch != "processes" || spaces) return;
    program_ = command[0];
    words_ = without_flags({command.begin() + 2, command.end()}, kFlagsOfALaunch);
    words_ = without_flags(words_, std::to_array<std::string_view>({"baseline", "breakdown", "no-controls"}));
    // By default a sweep of more ranks gives each of them fewer threads.
    const bool threads = run.ranks < record.ranks && run.threads_per_rank > 0;
    std::vector<std::string> own;
    for (const auto& [flag, value, always] :
         {std::tuple("--model", run.model, false),
          {"--batch", std::to_string(run.batch_per_rank), false},
          {"--global-batch", std::to_string(run.global_batch), false},
          {"--ranks", std::to_string(run.ranks), true},
          {"--strategy", run.strategy, false},
          {"--precision", run.precision, false},
          {"--kernels", run.kernels, false},
          {"--bucket-mb", fmt::format("{}", run.bucket_mb), run.tuning.has_value()},
          {"--threads", std::to_string(run.threads_per_rank), threads}}) {
      if (always || std::ranges::find(words_, flag_name(flag), flag_name) != words_.end())
        own.insert(own.end(), {flag, value});
    }
    words_ = with_flags(words_, own);
  }

  /// "`lockstep bench ... --breakdown`": the row measured once more.
  std::string bench(const std::string& more) const {
    return program_.empty() ? fmt::format("`lockstep bench {}`", more) : command("bench", more);
  }

  /// "`--wire bf16`, which `lockstep compare ... -- --wire bf16` measures in about 2 min".
  std::string compare(const std::string& change) const {
    if (program_.empty()) return fmt::format("`{}`", change);
    // Six launches of each side decide most comparisons; each takes 1.5 s to start, and 10 s at most.
    const double minutes = 12 * (1.5 + std::min(10.0, run_.elapsed_s / launches(run_))) / 60;
    return fmt::format("`{}`, which {} measures in about {:.0f} min", change,
                       command("compare", "-- " + change), std::max(1.0, minutes));
  }

 private:
  std::string command(const char* name, const std::string& more) const {
    return fmt::format("`{} {} {} {}`", program_, name, fmt::join(words_, " "), more);
  }

  const Run& run_;
  /// Empty: not known.
  std::string program_;
  std::vector<std::string> words_;
};

/// What the efficiency is lost to, the largest part first, and what to try against that. Empty where nothing
/// is known.
std::string costs_sentence(const RunRecord& record, const Run& run, const NextCommands& next) {
  struct Cost {
    double share;
    std::string name;
    std::string advice;
  };
  const std::string seen = ": `lockstep topo` shows what the ranks share";
  const bool has_wire = run.strategy == "ddp" || run.strategy == "replicated" || run.strategy == "horovod";
  const std::string less_work =
      run.strategy == "replicated" ? "" : ": try " + next.compare("--strategy replicated");
  const std::string fewer_bytes = has_wire && run.strategy_options.find("--wire") == std::string::npos
                                      ? ": try " + next.compare("--wire bf16")
                                      : less_work;
  const Run* control = independent_of(record, run);
  std::vector<Cost> costs;
  if (run.factors && doubt_of_factors(run).empty()) {
    const int straggler = run.breakdown ? run.breakdown->straggler.value_or(-1) : -1;
    costs = {{1 - run.factors->machine, "sharing the machine", seen},
             {1 - run.factors->strategy, "the strategy's own work", less_work},
             {1 - run.factors->transfer, "transfer that nothing hides", fewer_bytes},
             {1 - run.factors->stragglers,
              straggler >= 0 ? fmt::format("waiting (for rank {})", straggler) : "waiting for others", seen}};
  } else if (control != nullptr && control != &run && positive(control->efficiency) &&
             positive(run.efficiency)) {
    costs = {{1 - *control->efficiency, "sharing the machine", seen},
             {1 - *run.efficiency / *control->efficiency, "communication",
              fmt::format(": {} says to what", next.bench("--breakdown"))}};
  }
  // Where one of them is a gain, which is noise, the others are together what was lost.
  const bool gains = std::ranges::any_of(costs, [](const Cost& cost) { return cost.share < 0; });
  double lost = 1 - run.efficiency.value_or(0), sum = 0;
  for (const Cost& cost : costs) sum += std::max(0.0, cost.share);
  if (gains && sum > lost) {
    for (Cost& cost : costs) cost.share *= std::max(0.0, lost) / sum;
  }
  std::erase_if(costs, [](const Cost& cost) { return !(cost.share >= kWorthSaying); });
  std::ranges::stable_sort(costs, std::greater(), &Cost::share);
  std::vector<std::string> parts;
  for (const Cost& cost : costs) parts.push_back(fmt::format("{} {}", cost.name, share_text(cost.share)));
  return costs.empty() ? "" : fmt::format("Costs: {}{}.", fmt::join(parts, ", "), costs.front().advice);
}

/// "412 images/s (7.8 % less)"; without `than` the rate alone.
std::string relative(const Run& run, double than = 0) {
  const double change = run.images_per_s / than - 1;
  const std::string rate = fmt::format("{} {}", number_text(run.images_per_s), run.rate_unit());
  if (than == 0) return rate;
  if (std::abs(change) < 0.0005) return rate + " (the same)";
  return fmt::format("{} ({} {})", rate, share_text(std::abs(change)), change > 0 ? "more" : "less");
}

/// Other strategies and settings of the same record on as many ranks: the nearest in speed, the fastest
/// first.
std::string others_sentence(const Sources& sources, const LabelledRun& run, const NextCommands& next) {
  std::vector<LabelledRun> others = labelled_runs(sources);
  std::erase_if(others, [&](const LabelledRun& other) {
    return other.record != run.record || other.run == run.run || other.control || !other.run->finished() ||
           other.run->ranks != run.run->ranks || other.run->model != run.run->model ||
           other.run->batch_per_rank != run.run->batch_per_rank || !positive(other.run->images_per_s);
  });
  if (others.empty()) return "";
  const double own = run.run->images_per_s;
  std::ranges::stable_sort(others, {},
                           [&](const LabelledRun& other) { return std::abs(other.run->images_per_s - own); });
  const std::string nearest = others.front().run->strategy;
  const size_t further = others.size() - std::min(kMostOthers, others.size());
  others.resize(others.size() - further);
  std::ranges::stable_sort(others, std::greater(),
                           [](const LabelledRun& other) { return other.run->images_per_s; });
  std::vector<std::string> parts;
  for (const LabelledRun& other : others)
    parts.push_back(other.label_in_network + " " + relative(*other.run, own));
  if (further > 0) parts.push_back(fmt::format("{} further away", further));
  return fmt::format(
      "Beside {}: {}{}.", run.label_in_network, fmt::join(parts, "; "),
      nearest == run.run->strategy ? "" : "; to be certain, try " + next.compare("--strategy " + nearest));
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

/// ", 1.77 times one rank without a strategy, so 89 % efficient"; empty where that is not known or cannot be
/// true.
std::string efficiency_words(const Run& run) {
  if (!positive(run.speedup) || !positive(run.efficiency) || run.strategy == kSingle || !run.doubt.empty())
    return "";
  const std::optional<Interval> interval = run.efficiency_interval();
  if (*run.efficiency > 1 && interval && interval->missing.empty()) {
    const bool gains = interval->low > 1;
    return fmt::format(", {}100\u00A0% efficient{}", gains ? "at least " : "",
                       gains ? "" : " within its uncertainty");
  }
  return fmt::format(", {} times {}, so {} efficient", number_text(run.speedup), baseline_words(run),
                     share_text(run.efficiency));
}

/// One sentence: network, batch, strategy, ranks, rate, and the speed-up where it is known.
std::string headline_of(const LabelledRun& run) {
  const Run& found = *run.run;
  const std::string uncertainty = uncertainty_text(found);
  return fmt::format("{}, {} per rank, {} at {}: {}{} {}s per second{}.", found.model,
                     counted(found.batch_per_rank, found.units_per_sample == 1 ? found.unit : "sample"),
                     found.strategy, counted(found.ranks, "rank"), number_text(found.images_per_s),
                     uncertainty.starts_with("±") ? fmt::format(" ({})", uncertainty) : "", found.unit,
                     efficiency_words(found));
}

/// The larger, the better a run stands for its network: how it scales shows at the most ranks that do not
/// take turns.
std::tuple<bool, bool, bool, int, double> weight_of(const RunRecord& record, const LabelledRun& run) {
  return {run.run->finished(), !run.control, spare_cores(record, *run.run).value_or(0) >= 0, run.run->ranks,
          run.run->images_per_s};
}

/// Every other network, at its most ranks.
std::string other_models_sentence(const Sources& sources, const LabelledRun& headline) {
  constexpr size_t kMost = 8;
  const RunRecord& record = sources.records[headline.record].record;
  std::vector<LabelledRun> best;
  for (const LabelledRun& run : labelled_runs(sources)) {
    if (run.control || run.record != headline.record || run.run->model == headline.run->model) continue;
    if (!positive(run.run->images_per_s) || !run.run->finished()) continue;
    const auto of_model = [](const LabelledRun& each) { return each.run->model; };
    const auto known = std::ranges::find(best, run.run->model, of_model);
    if (known == best.end()) {
      best.push_back(run);
    } else if (weight_of(record, run) > weight_of(record, *known)) {
      *known = run;
    }
  }
  std::vector<std::string> parts;
  best.resize(std::min(best.size(), kMost));
  for (const LabelledRun& run : best)
    parts.push_back(fmt::format("{} {}{}", with_ranks(run), relative(*run.run), efficiency_words(*run.run)));
  return parts.empty() ? "" : fmt::format("Other networks: {}.", fmt::join(parts, "; "));
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

/// Speed beside memory: the fastest strategy at these ranks, and the one that needs the least memory; and
/// what
/// --memory-limit left out. Empty where strategies were not compared.
std::string memory_sentence(const RunRecord& record, const Run& headline) {
  const Run *fastest = nullptr, *smallest = nullptr;
  for (const Run& run : record.runs) {
    const bool compared = communicates(run) && run.finished() && positive(run.images_per_s) && run.memory &&
                          run.memory->peak.most > 0 && run.model == headline.model &&
                          run.ranks == headline.ranks && run.batch_per_rank == headline.batch_per_rank;
    if (!compared) continue;
    if (fastest == nullptr || run.images_per_s > fastest->images_per_s) fastest = &run;
    if (smallest == nullptr || run.memory->peak.most < smallest->memory->peak.most) smallest = &run;
  }
  const auto name = [](const Run& run) {
    return run.strategy_options.empty() ? run.strategy : run.strategy + " " + run.strategy_options;
  };
  std::string text;
  if (fastest != nullptr && (fastest != smallest || record.memory_limit_bytes > 0)) {
    text = fmt::format("{} is the fastest{} ({} {})", name(*fastest),
                       record.memory_limit_bytes > 0
                           ? fmt::format(" that fits in {}", format_bytes(record.memory_limit_bytes))
                           : "",
                       number_text(fastest->images_per_s), fastest->rate_unit());
    if (fastest != smallest) {
      text += fmt::format(
          "; {} needs {:.2f} of its memory at {:.2f} of its speed", name(*smallest),
          static_cast<double>(smallest->memory->peak.most) / static_cast<double>(fastest->memory->peak.most),
          smallest->images_per_s / fastest->images_per_s);
    }
    text += ".";
  }
  if (record.over_memory_limit.empty()) return text;
  return fmt::format("{}{}Left out: {}.", text, text.empty() ? "" : " ",
                     fmt::join(record.over_memory_limit, "; "));
}

/// At most kMostSentences about a run and its record: the result, what it is lost to, what it compares with,
/// then data that the record lacks, the most important first.
std::vector<std::string> explain(const Sources& sources, const LabelledRun& labelled) {
  const RunRecord& record = sources.records[labelled.record].record;
  const Run& run = *labelled.run;
  if (run.recorded) {
    std::vector<std::string> told = recorded_sentences(record, run);
    if (!run.doubt.empty())
      told.insert(told.begin() + 1, "Its efficiency is disturbed: measure again; the WARNING says why.");
    return told;
  }
  const NextCommands next(record, run);
  std::vector<std::string> sentences{headline_of(labelled)};
  const auto add = [&](std::string sentence) {
    if (!sentence.empty() && sentences.size() < kMostSentences) sentences.push_back(std::move(sentence));
  };
  if (!run.doubt.empty()) {
    add(fmt::format("Its efficiency is disturbed: measure again with {}; the WARNING says why.",
                    next.bench(run.breakdown ? "--breakdown --repeat 4" : "--repeat 4")));
  } else {
    add(costs_sentence(record, run, next));
  }
  const bool split = sentences.size() > 1;
  // Beyond the limit on sentences: it answers what a comparison of strategies asked.
  if (std::string memory = memory_sentence(record, run); !memory.empty())
    sentences.push_back(std::move(memory));
  add(other_models_sentence(sources, labelled));
  add(others_sentence(sources, labelled, next));
  if (all_published(sources.records)) return sentences;
  const auto none = [&](auto has) { return std::ranges::none_of(record.runs, has); };
  if (none([](const Run& one) { return one.speedup.has_value(); })) {
    add("Speed-up and efficiency need the rate of one rank without a strategy, which `lockstep bench --ranks "
        "1,2,4` measures with the rest.");
  }
  if (!split && none([](const Run& one) { return one.breakdown.has_value(); }))
    add(fmt::format("Where the time of a step goes was not measured: {} does.", next.bench("--breakdown")));
  if (none([](const Run& one) { return one.step_interval_s && one.step_interval_s->missing.empty(); })) {
    add(fmt::format("No row has a 95 % interval: measure more steps, or several launches with {}.",
                    next.bench("--repeat 5")));
  }
  return sentences;
}

/// "batch 32", or "batch 64 in all" under strong scaling.
std::string batch_label(const Run& run) {
  return run.global_batch > 0 ? fmt::format("batch {} in all", run.global_batch)
                              : fmt::format("batch {}", run.batch_per_rank);
}

bool is_batch(const Setting* setting) {
  return setting != nullptr && setting->member == Setting::Member(&Setup::batch_per_rank);
}

/// All settings of a run except its number of ranks, or the one `across`. An unfinished run stands for no
/// other of its settings.
std::string curve_key(const Run& run, const Setting* across) {
  std::string key = fmt::format("{}\n{}\n{}", run.model, run.strategy, run.finished());
  if (across != nullptr) key += fmt::format("\n{}", run.ranks);
  if (!is_batch(across)) key += "\n" + batch_label(run);
  for (const Setting& attribute : attributes()) {
    const bool concerned = !attribute.has(Setting::kOfCommunication) || communicates(run);
    if (concerned && &attribute != across) key += "\n" + attribute.text(run);
  }
  return key;
}

/// Strategy, ranks, batch, other settings and record, as far as they vary.
std::string label_of(const LabelledRun& labelled, const std::vector<const Setting*>& varied, bool with_ranks,
                     bool with_batch, const std::string& record) {
  const Run& run = *labelled.run;
  std::string label = run.strategy.empty() ? "?" : run.strategy;
  if (labelled.control) label += " (control)";
  if (!run.finished()) label += fmt::format(" ({})", kUnfinished);
  if (with_ranks) label += ", " + counted(run.ranks, "rank");
  if (with_batch) label += ", " + batch_label(run);
  label += settings_text(run, varied);
  return record.empty() ? label : label + ", " + record;
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
    const RunRecord& record = records[run.record].record;
    if (!best || weight_of(record, run) > weight_of(record, *best)) best = run;
  }
  return best;
}

Document explanation(const Sources& sources) {
  Document document;
  std::vector<std::string> sentences;
  if (const auto run = headline_run(sources.records)) {
    document.add(Heading{"Summary"});
    const NamedRecord& base = sources.records[run->record];
    for (const NamedRecord& other : sources.records) {
      if (&other != &base && !all_published(sources.records)) document.append(verdicts(base, other));
    }
    sentences = explain(sources, *run);
    document.add(Remark{sources.records.size() > 1 ? base.name + ": " : "", sentences.front()});
    sentences.erase(sentences.begin());
    compare_published(sources, *run->run, sentences);
  } else if (sources.records.empty()) {
    sentences.push_back("No run of your own: `lockstep bench --json FILE` measures one.");
  } else if (!all_trainings(sources.records)) {
    document.add(Remark{"", "No run in it has a rate."});
  }
  for (const NamedRecord& named : sources.records) {
    if (named.record.training)
      document.add(Remark{named.name + ": ", training_sentence(*named.record.training)});
  }
  if (!sentences.empty()) document.add(List{std::move(sentences)});
  return document;
}

std::vector<std::string> display_names(const std::vector<std::string>& paths) {
  std::map<std::string, int> count, given;
  const auto short_name = [](const std::string& path) { return std::filesystem::path(path).stem().string(); };
  for (const std::string& path : paths) ++count[short_name(path)];
  std::vector<std::string> names;
  for (const std::string& path : paths) {
    // Two files of one name in different folders keep their paths.
    names.push_back(count[short_name(path)] > 1 ? path : short_name(path));
    if (const int number = ++given[path]; number > 1) names.back() += fmt::format(" ({})", number);
  }
  return names;
}

bool all_published(std::span<const NamedRecord> records) {
  return !records.empty() && std::ranges::all_of(records, [](const NamedRecord& named) {
    return named.record.source == kPublished;
  });
}

bool all_trainings(std::span<const NamedRecord> records) {
  return !records.empty() && std::ranges::all_of(records, [](const NamedRecord& named) {
    return named.record.training.has_value();
  });
}

void complete(Sources& sources) {
  if (sources.records.empty()) sources.records.swap(sources.published);
  for (NamedRecord& named : sources.records) {
    // Files of PyTorch's benchmark, and parts of records, come without.
    const bool known =
        std::ranges::any_of(named.record.runs, [](const Run& run) { return run.speedup.has_value(); });
    if (!known) assign_baselines(named.record);
  }
}

std::vector<LabelledRun> labelled_runs(std::span<const NamedRecord> records, const Setting* across) {
  std::vector<LabelledRun> runs;
  if (records.size() > 1 && all_published(records)) {
    // Publications differ in more settings than a label holds: each is labelled by itself.
    for (size_t record = 0; record < records.size(); ++record) {
      for (LabelledRun& run : labelled_runs(records.subspan(record, 1), across)) {
        run.record = record;
        run.curve = fmt::format("{}\n{}", record, run.curve);
        run.label = fmt::format("{}: {}", records[record].name, run.label);
        run.label_in_network = fmt::format("{}: {}", records[record].name, run.label_in_network);
        runs.push_back(std::move(run));
      }
    }
    return runs;
  }
  // A label has varying settings only.
  std::vector<const Run*> all;
  std::set<std::string> models, batches;
  std::set<int> ranks;
  for (size_t record = 0; record < records.size(); ++record) {
    for (const Run& run : records[record].record.runs) {
      runs.push_back({.run = &run,
                      .record = record,
                      .control = is_control(records[record].record, run),
                      .curve = fmt::format("{}\n{}", record, curve_key(run, across))});
      models.insert(run.model);
      batches.insert(batch_label(run));
      if (!runs.back().control) ranks.insert(run.ranks);
      all.push_back(&run);
    }
  }
  std::vector<const Setting*> varied = varied_settings(all);
  std::erase_if(varied, [&](const Setting* setting) {
    // A record that lacks a setting does not differ in it.
    std::set<std::string> known;
    for (const Run* run : all) known.insert(setting->text(*run));
    known.erase("");
    // Images of one size in each network are the network's.
    std::set<std::pair<std::string, std::string>> by_model;
    for (const Run* run : all) by_model.emplace(run->model, setting->text(*run));
    const bool of_model = setting->has(Setting::kFixed) && by_model.size() == models.size();
    return setting == across || known.size() < 2 || of_model;
  });
  for (LabelledRun& run : runs) {
    run.label_in_network =
        label_of(run, varied, across != nullptr && ranks.size() > 1, batches.size() > 1 && !is_batch(across),
                 records.size() > 1 ? records[run.record].name : "");
    run.label = models.size() > 1 ? run.run->model + ", " + run.label_in_network : run.label_in_network;
  }
  return runs;
}

std::string with_ranks(const LabelledRun& run) {
  return run.label + ", " + counted(run.run->ranks, "rank");
}

std::string with_ranks_only(const LabelledRun& run) {
  return run.label_in_network + ", " + counted(run.run->ranks, "rank");
}

int64_t peak_memory_bytes(const Run& run) {
  if (!run.resources || run.resources->peak_memory_bytes.empty()) return 0;
  return std::ranges::max(run.resources->peak_memory_bytes);
}

std::string unit_of(const Sources& sources) {
  std::set<std::string> units;
  for (const NamedRecord& named : sources.records) {
    for (const Run& run : named.record.runs) units.insert(run.unit);
  }
  return units.empty() ? "image" : units.size() == 1 ? *units.begin() : "unit";
}

std::optional<double> shown_speedup(const Run& run) {
  return run.stated_speedup ? run.stated_speedup : run.speedup;
}

}  // namespace lockstep::results
