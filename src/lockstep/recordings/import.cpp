#include "lockstep/recordings/import.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"
#include "lockstep/measure/interval.h"
#include "lockstep/measure/stopping.h"
#include "lockstep/recordings/kineto_trace.h"
#include "lockstep/recordings/rank_steps.h"
#include "lockstep/recordings/recording.h"
#include "lockstep/results/record/baseline.h"
#include "lockstep/results/record/recorded.h"
#include "lockstep/results/record/resources.h"

namespace lockstep::recordings {
namespace {

using results::Recorded;

/// Steps before the window in which the recorder tries the profiler and starts it.
constexpr int64_t kBefore = 3;
/// Steps after it in which the recorder stops the profiler.
constexpr int64_t kAfter = 1;

/// Times of the steps whose index `counts`.
template <typename Counts>
std::vector<double> steps_where(const RankFile& file, Counts counts) {
  std::vector<double> step_s;
  for (size_t i = 1; i < file.step_end_s.size(); ++i) {
    if (counts(static_cast<int64_t>(i))) step_s.push_back(file.step_end_s[i] - file.step_end_s[i - 1]);
  }
  return step_s;
}

/// Times of the steps of one rank outside of the profiler's window, each from the end of the one before it,
/// without those in which the profiler started and stopped.
std::vector<double> steps_outside(const RankFile& file) {
  return steps_where(file, [&](int64_t at) {
    return file.window.empty() || at < file.window[0] - kBefore || at > file.window[1] + kAfter;
  });
}

/// Their number before the window, and how many are left out there.
std::pair<int, int> steps_left_out(const RankFile& file) {
  if (file.window.empty()) return {0, 0};
  // The first step is not timed.
  const int64_t first = std::max<int64_t>(1, file.window[0] - kBefore);
  return {static_cast<int>(first - 1), static_cast<int>(file.window[1] + kAfter + 1 - first)};
}

/// Likewise of those inside.
std::vector<double> steps_inside(const RankFile& file) {
  return steps_where(
      file, [&](int64_t at) { return !file.window.empty() && at >= file.window[0] && at < file.window[1]; });
}

/// The longest of the ranks' steps of the same place; all ranks have as many.
std::vector<double> longest_steps(const std::vector<std::vector<double>>& ranks) {
  std::vector<double> longest_s = ranks.front();
  for (const auto& rank : ranks) {
    for (size_t i = 0; i < longest_s.size(); ++i) longest_s[i] = std::max(longest_s[i], rank[i]);
  }
  return longest_s;
}

/// Sets the window's cost: the median step in it over that outside, with its interval. Nothing without steps.
void assign_window_cost(results::Recorded& recorded, const std::vector<double>& inside_s,
                        const std::vector<double>& outside_s) {
  if (inside_s.empty() || outside_s.empty()) return;
  const measure::Estimate inside = measure::quantile_estimate(inside_s, 0.5);
  const measure::Estimate outside = measure::quantile_estimate(outside_s, 0.5);
  if (!(outside.value > 0)) return;
  recorded.window_cost = inside.value / outside.value;
  recorded.window_cost_interval = results::Interval{.missing = "not enough data"};
  if (!inside.interval || !outside.interval) return;
  const auto found =
      measure::ratio_interval({inside.value, inside.interval->lower, inside.interval->upper},
                              {outside.value, outside.interval->lower, outside.interval->upper});
  if (found)
    recorded.window_cost_interval =
        results::Interval{.low = found->lower, .high = found->upper, .missing = {}};
}

constexpr const char* kFinished = "finished";
/// Smaller changes of the step behind the window leave its phases as they are.
constexpr double kLeastShift = 0.1;
/// Kinds of ends that one sentence names.
constexpr size_t kMostEnds = 4;
/// Fewer steps outside of the window are no series.
constexpr size_t kLeastOutside = 8;

std::string listed(const std::vector<int>& ranks) {
  constexpr size_t kMost = 8;
  return fmt::format("{}{}", fmt::join(std::span(ranks).first(std::min(kMost, ranks.size())), ", "),
                     ranks.size() > kMost ? ", ..." : "");
}

std::string most_common(const std::vector<std::string>& texts) {
  std::map<std::string, int> counts;
  for (const std::string& text : texts) {
    if (!text.empty()) ++counts[text];
  }
  return counts.empty()
             ? ""
             : std::ranges::max_element(counts, {}, [](const auto& each) { return each.second; })->first;
}

/// Throws Error where the phases of a rank are not its steps, or its exposed communication is not that of its
/// trace: then a reader would be told what did not happen.
void check_sums(const measure::Breakdown& breakdown, const std::vector<results::RecordedWork>& work,
                int world) {
  for (size_t i = 0; i < work.size(); ++i) {
    const measure::PhaseTimes& mean = breakdown.ranks[i].mean;
    const double steps = breakdown.steps, exposed_s = work[i].exposed_s / steps;
    const double sum_s =
        mean.input_s + mean.forward_s + mean.backward_s + mean.exposed_s() + mean.optimizer_s + mean.other_s;
    const bool fits = std::abs(sum_s - work[i].window_s / steps) <= 1e-3 * mean.step_s;
    if (fits && (world == 1 || std::abs(mean.exposed_s() - exposed_s) <= 0.01 * exposed_s + 1e-9)) continue;
    throw Error(fmt::format("the phases of a rank sum to {:.6g} s of {:.6g} s, its exposed communication to "
                            "{:.6g} s of {:.6g} s: the trace is read wrongly",
                            sum_s, work[i].window_s / steps, mean.exposed_s(), exposed_s),
                "This is a fault of lockstep's: report it with the trace.");
  }
}

class Importer {
 public:
  explicit Importer(const ImportOptions& options) : options_(options) {}

  results::RunRecord import() {
    if (options_.paths.empty())
      throw ConfigError("no trace to import", "Name traces or a recording's folder.");
    members_ = members_of(options_.paths);
    read_traces();
    std::ranges::sort(placed_, {}, &PlacedSteps::rank);
    std::ranges::sort(members_, {}, &Member::rank);
    const bool timed = std::ranges::any_of(
        members_, [](const Member& member) { return member.file && member.file->step_end_s.size() > 1; });
    if (placed_.empty() && !timed)
      throw Error("none of these files has a trace", notes_.empty() ? "" : notes_.front());
    number_steps();
    put_ranks_together();
    fill_ends();
    fill_setup();
    explain();
    fill_facts();
    add_rates();
    return record();
  }

 private:
  void note(std::string text) { notes_.push_back(std::move(text)); }

  void read_traces() {
    std::set<int> known;
    int64_t origin_ns = 0;
    for (Member& member : members_) {
      if (member.file) {
        world_ = std::max(world_, member.file->world);
        for (const std::string& warning : member.file->warnings)
          note(fmt::format("Rank {}: {}", member.rank, warning));
        if (member.trace.empty() && member.file->warnings.empty())
          note(fmt::format("Rank {} has no trace.", member.rank));
      }
      std::error_code error;
      const bool is_missing = member.file && !std::filesystem::exists(member.trace, error);
      if (is_missing && !member.trace.empty())
        note(fmt::format("Rank {}'s trace, {}, is missing.", member.rank, member.trace.filename().string()));
      if (is_missing || member.trace.empty()) {
        check_new(known, member.rank);
        continue;
      }
      if (options_.progress) options_.progress(member.name().string());
      const KinetoTrace trace = read_kineto_trace(member.trace, member.inside);
      if (trace.events.empty())
        throw Error(fmt::format("'{}' holds no events of a training", member.name().string()),
                    "Record with the activities CPU and, on GPUs, CUDA.");
      check_readable(trace);
      place(member, trace, known);
      if (placed_.empty()) origin_ns = trace.events.front().begin_ns;
      // An optimizer that was at work when the profiler stopped ends with it, behind the window.
      const bool windowed = member.file && !member.file->window.empty();
      const int64_t past = windowed ? member.file->window[1] - member.file->window[0] : INT64_MAX;
      placed_.push_back(
          {member.rank, member.file ? member.file->host : "", stamp_steps(trace, origin_ns, past)});
      if (member.earlier_windows > 0)
        note(fmt::format("Rank {}: {} of the same process left out.", member.rank,
                         counted(member.earlier_windows, "earlier window")));
      if (!trace.unknown_categories.empty())
        note(fmt::format("Rank {}: events of these categories are not read: {}.", member.rank,
                         fmt::join(trace.unknown_categories, ", ")));
      const RankSteps& steps = placed_.back().steps;
      for (const std::string& each : steps.notes) note(fmt::format("Rank {}: {}", member.rank, each));
      if (steps.steps.empty())
        throw Error(fmt::format("the window of rank {} holds none of its steps", member.rank),
                    "Its file was cut off or changed: record it again.");
      if (options_.stamps) events_[member.rank] = events_within(steps.steps, trace, origin_ns, 200'000);
      know(trace);
    }
  }

  /// Hosts whose clocks may differ by more than a step match steps by their place in the window, which is the
  /// same.
  void number_steps() {
    if (placed_.empty()) return;
    const auto host = [](const PlacedSteps& each) { return each.host; };
    const bool known = std::ranges::none_of(placed_, &std::string::empty, host);
    if (!known || std::ranges::count(placed_, placed_.front().host, host) == std::ssize(placed_)) return;
    for (PlacedSteps& each : placed_) {
      for (RankStep& step : each.steps.steps) step.number = step.index;
    }
  }

  void put_ranks_together() {
    if (placed_.empty()) return;
    JobSteps job = put_together(placed_);
    stamps_ = std::move(job.stamps);
    recorded_ = std::move(job);
  }

  /// Finds out which rank a trace is of.
  void place(Member& member, const KinetoTrace& trace, std::set<int>& known) {
    const int said = trace.rank.value_or(rank_in_name(member.name()));
    if (!member.file) member.rank = said >= 0 ? said : static_cast<int>(known.size());
    world_ = std::max({world_, trace.world.value_or(1), member.rank + 1});
    check_new(known, member.rank);
  }
  static void check_new(std::set<int>& known, int rank) {
    if (known.insert(rank).second) return;
    throw Error(fmt::format("rank {} is there twice, so the traces are not of one recording", rank),
                "Name one trace per rank.");
  }

  void know(const KinetoTrace& trace) {
    backends_.push_back(trace.backend);
    gpus_.push_back(trace.gpu);
    for (const Event& event : trace.events) {
      if (event.role != EventRole::kForward) continue;
      forwards_.insert(trace.name_of(event));
      break;
    }
    on_device_ = on_device_ || std::ranges::any_of(trace.events, [](const Event& each) {
                   return each.kind == EventKind::kKernel;
                 });
  }

  /// Every value that the members' files agree on, or most of them.
  template <typename Get>
  std::string of_files(Get get) const {
    std::vector<std::string> texts;
    for (const Member& member : members_) {
      if (member.file) texts.push_back(get(*member.file));
    }
    return most_common(texts);
  }

  void fill_setup() {
    static_cast<results::Setup&>(run_) = results::unknown_setup();
    const auto named = std::ranges::find_if(
        members_, [](const Member& member) { return member.file && !member.file->command.empty(); });
    run_.model = options_.name;
    if (run_.model.empty() && named != members_.end()) run_.model = script_name(named->file->command);
    if (run_.model.empty()) run_.model = results::kUnnamed;
    run_.ranks = world_;
    std::set<std::string> hosts;
    for (const Member& member : members_) {
      if (member.file) hosts.insert(member.file->host);
    }
    // Where the ranks without a file or a trace are is not known.
    run_.hosts = static_cast<int>(members_.size()) < world_ ? 0 : std::max(1, static_cast<int>(hosts.size()));
    const bool fsdp =
        std::ranges::any_of(forwards_, [](const std::string& name) { return name.starts_with("Fully"); });
    run_.strategy = of_files(&strategy_of);
    if (run_.strategy.empty()) run_.strategy = fsdp ? "fsdp" : forwards_.empty() ? "recorded" : "ddp";
    if (world_ == 1) run_.strategy = results::kSingle;
    run_.backend = world_ == 1 ? "" : of_files([](const RankFile& file) { return file.backend; });
    if (run_.backend.empty() && world_ > 1) run_.backend = most_common(backends_);
    run_.device = on_device_ ? "cuda" : "cpu";
    run_.input = "own";
    run_.kernels = "own";
    run_.memory_format = "own";
    if (!placed_.empty()) {
      const RankSteps& steps = placed_.front().steps;
      run_.accumulate = std::max(1, steps.passes);
      recorded_.gradients = steps.gradients;
      recorded_.has_loader = steps.has_loader;
    }
    for (const results::RecordedGradient& gradient : recorded_.gradients) {
      run_.parameters += gradient.elements;
      run_.largest_parameter = std::max(run_.largest_parameter, gradient.elements);
    }
    run_.parameter_tensors = static_cast<int64_t>(recorded_.gradients.size());
    fill_batch();
  }

  static std::string strategy_of(const RankFile& file) { return file.strategy; }

  /// "train" for {"python", "train.py", "--lr", "1"}.
  static std::string script_name(const std::vector<std::string>& command) {
    for (const std::string& word : command) {
      if (word.ends_with(".py")) return std::filesystem::path(word).stem().string();
    }
    return std::filesystem::path(command.front()).filename().string();
  }

  void fill_batch() {
    std::vector<int64_t> batches;
    for (const PlacedSteps& each : placed_) batches.push_back(each.steps.batch);
    const int64_t most = batches.empty() ? 0 : std::ranges::max(batches);
    if (std::ranges::any_of(batches, [&](int64_t batch) { return batch > 0 && batch != most; }))
      recorded_.batches = batches;
    const bool disagree = std::ranges::any_of(
        placed_, [&](const PlacedSteps& each) { return loader_disagrees(file_of(each.rank), each.steps); });
    double loaded = 0, ranks = 0;
    int64_t batch = 0;
    for (const Member& member : members_) {
      if (!member.file || !member.file->samples_per_step || disagree) continue;
      loaded += *member.file->samples_per_step;
      batch = std::max(batch, member.file->batch_size.value_or(0));
      ++ranks;
    }
    run_.unit = "sample";
    const auto set_batch = [&](double per_pass) {
      run_.batch_per_rank = static_cast<int>(std::clamp(per_pass, 1.0, 1e9));
    };
    if (options_.samples_per_step) {
      set_batch(*options_.samples_per_step / run_.accumulate);
      recorded_.samples_per_step = *options_.samples_per_step;
    } else if (loaded > 0) {
      recorded_.samples_per_step = loaded / ranks;
      if (batch == 0) batch = std::llround(recorded_.samples_per_step / run_.accumulate);
      set_batch(static_cast<double>(batch));
      // Several backward passes may be those of one batch.
      const double fetched = recorded_.samples_per_step / run_.batch_per_rank;
      if (fetched <= run_.accumulate - 1)
        run_.accumulate = std::max(1, static_cast<int>(std::lround(fetched)));
      note(fmt::format("{:.4g} samples in a step of a rank, by what its DataLoader yielded.",
                       recorded_.samples_per_step));
    } else if (most > 0 && !disagree) {
      set_batch(static_cast<double>(most) / run_.accumulate);
      // Some steps may accumulate over fewer batches.
      const RankSteps& steps = placed_.front().steps;
      const bool uneven = steps.batch == most && steps.mean_samples > 0 && steps.mean_samples < most;
      if (uneven) recorded_.samples_per_step = steps.mean_samples;
      note(fmt::format("{:.4g} samples in a step of a rank, by the shapes in the trace.",
                       uneven ? steps.mean_samples : static_cast<double>(most)));
      if (!recorded_.batches.empty())
        note("Ranks train different numbers of samples; rates count one of them for all.");
    } else {
      run_.unit = results::kStepUnit;
      run_.batch_per_rank = run_.accumulate = 1;
      note(fmt::format(
          "How many samples a step has is not known{}, so rates count steps of a rank: --samples-per-step "
          "says it.",
          disagree ? " (the DataLoader's batch is not that of the first layer)" : ""));
    }
  }

  /// Whether the first layer has other samples than the DataLoader's batch: it yields parts of samples, or
  /// the model divides them.
  static bool loader_disagrees(const RankFile* file, const RankSteps& steps) {
    if (file == nullptr || !file->batch_size || steps.batch == 0) return false;
    return *file->batch_size != steps.batch && *file->batch_size * steps.passes != steps.batch;
  }

  const RankFile* file_of(int rank) const {
    const auto member = std::ranges::find(members_, rank, &Member::rank);
    return member != members_.end() && member->file ? &*member->file : nullptr;
  }

  void explain() {
    for (const PlacedSteps& each : placed_) {
      recorded_.ranks.push_back(each.rank);
      recorded_.evaluation_steps = std::max(recorded_.evaluation_steps, each.steps.evaluation_steps);
      recorded_.incomplete_steps = std::max(recorded_.incomplete_steps, each.steps.incomplete_steps);
    }
    const std::string torch = of_files([](const RankFile& file) { return file.torch; });
    recorded_.by = torch.empty() ? "PyTorch's profiler" : fmt::format("PyTorch {}'s profiler", torch);
    if (placed_.empty()) {
      for (const Member& member : members_) {
        if (member.file && member.file->step_end_s.size() > 1) recorded_.ranks.push_back(member.rank);
      }
      return;
    }
    recorded_.steps = static_cast<int>(stamps_.front().steps.size());
    std::ranges::move(std::exchange(recorded_.notes, {}), std::back_inserter(notes_));
    const auto present = recorded_.ranks.size();
    if (present < static_cast<size_t>(world_)) {
      note(fmt::format(
          "{} of {} ranks have a trace ({}): how long they wait for the others is part of transfer.", present,
          world_, listed(recorded_.ranks)));
    }
    run_.breakdown = measure::break_down(stamps_, static_cast<size_t>(world_));
    check_sums(*run_.breakdown, recorded_.work, world_);
    for (size_t i = 0; i < present; ++i) {
      const RankFile* file = file_of(recorded_.ranks[i]);
      if (file != nullptr) run_.breakdown->ranks[i].processor = file->processor;
    }
    if (run_.breakdown->straggler)
      run_.breakdown->straggler = recorded_.ranks[static_cast<size_t>(*run_.breakdown->straggler)];
    for (size_t i = 0; i < present; ++i) stamps_[i].kernels = std::move(events_[recorded_.ranks[i]]);
  }

  /// Says who ended first, which the others followed, and how many steps each made.
  void fill_ends() {
    std::vector<std::pair<double, results::RecordedEnd>> ends;
    std::set<std::pair<std::string, size_t>> kinds;
    for (const Member& member : members_) {
      if (!member.file || member.file->ended.empty()) continue;
      const size_t steps = member.file->step_end_s.size();
      ends.push_back(
          {member.file->ended_at, {member.rank, how_it_ended(member.file->ended), static_cast<int>(steps)}});
      kinds.emplace(member.file->ended, steps);
    }
    if (kinds.empty() || (kinds.size() == 1 && kinds.begin()->first == kFinished)) return;
    std::ranges::stable_sort(ends, {}, [](const auto& end) { return end.first; });
    std::vector<std::string> texts;
    for (size_t i = 0; i < ends.size();) {
      const auto [how, steps] = std::pair(ends[i].second.how, ends[i].second.steps);
      std::vector<int> ranks;
      for (; i < ends.size() && ends[i].second.how == how && ends[i].second.steps == steps; ++i) {
        ranks.push_back(ends[i].second.rank);
        ends[i].second.after_s = ends.front().first > 0 ? ends[i].first - ends.front().first : 0;
        recorded_.ends.push_back(ends[i].second);
      }
      std::ranges::sort(ranks);
      const bool several = ranks.size() > 1, was = several && how.starts_with("was ");
      texts.push_back(fmt::format("rank{} {} {}{} after {}", several ? "s" : "", listed(ranks),
                                  texts.empty() ? "" : "then ", was ? "were" + how.substr(3) : how,
                                  counted(steps, "step")));
    }
    if (texts.size() > kMostEnds) texts.erase(texts.begin() + kMostEnds, texts.end());
    texts.front().front() = 'R';
    notes_.insert(notes_.begin(), fmt::format("{}.", fmt::join(texts, "; ")));
  }

  static std::string how_it_ended(const std::string& ended) {
    if (ended == kFinished) return ended;
    if (ended.starts_with("exception: ")) return "failed: " + ended.substr(11);
    if (ended.starts_with("exit code ")) return "left with " + ended;
    if (ended == "running") return "ended without a word";
    return fmt::format("was {}{}", ended, ended == "terminated" ? " (SIGTERM)" : "");
  }

  void fill_facts() {
    for (const int rank : recorded_.ranks) {
      const RankFile* file = file_of(rank);
      recorded_.threads.push_back(file == nullptr ? 0 : file->threads);
      recorded_.cores.push_back(file == nullptr ? 0 : file->cores);
    }
    const auto [fewest, most] = std::ranges::minmax(recorded_.threads);
    run_.threads_per_rank = fewest == most ? most : 0;
    for (const Member& member : members_) {
      if (!member.file) continue;
      recorded_.host_cores = std::max(recorded_.host_cores, member.file->host_cores);
      recorded_.has_hook = recorded_.has_hook || !member.file->hook.empty();
      recorded_.skipped_updates = std::max(recorded_.skipped_updates, member.file->skipped_updates);
      if (member.file->has_loader)
        recorded_.has_loader = recorded_.has_loader.value_or(false) || *member.file->has_loader;
    }
    recorded_.precision = of_files([](const RankFile& file) { return file.precision; });
    run_.precision = recorded_.precision.empty() ? "own" : recorded_.precision;
  }

  /// [rank][step] of the ranks with a trace, cut to the shortest.
  template <typename Get>
  std::vector<std::vector<double>> series(Get get) const {
    std::vector<std::vector<double>> all;
    size_t least = std::numeric_limits<size_t>::max();
    for (const int rank : recorded_.ranks) {
      const RankFile* file = file_of(rank);
      all.push_back(file == nullptr ? std::vector<double>() : get(*file));
      least = std::min(least, all.back().size());
    }
    for (auto& each : all) each.resize(least);
    return all;
  }

  /// Says so where the steps changed for good behind the window.
  void note_shift(const measure::SteadyState& steady) {
    const auto& shift = steady.remainder.level_shift;
    const int at = shift ? static_cast<int>(steady.cut + shift->step) : 0;
    if (at <= recorded_.window_at || placed_.empty() || std::abs(shift->change_share()) < kLeastShift) return;
    const int from = at + recorded_.window_steps + 1;
    note(
        fmt::format("From step {} on a step takes {:.2f} times as long: the window before does not explain "
                    "these, --steps {}:{} does.",
                    from, 1 + shift->change_share(), from + 20, from + 40));
  }

  void add_rates() {
    run_.loss_first = run_.loss_last = std::numeric_limits<double>::quiet_NaN();
    auto steps = series(steps_outside);
    recorded_.rates_outside = placed_.empty() || steps.front().size() >= kLeastOutside;
    results::RowSeries rows;
    if (recorded_.rates_outside) {
      const std::vector<double> job = longest_steps(steps);
      const measure::SteadyState steady = measure::find_steady_state(job, /*only_slower=*/true);
      const size_t cut = std::min(steady.cut, job.size() - 1);
      run_.warmup_choice = steady.chosen;
      run_.unsettled = steady.unsettled_reason;
      for (const auto& rank : steps) {
        const auto warm = rank.begin() + static_cast<std::ptrdiff_t>(cut);
        rows.warmup_s.emplace_back(rank.begin(), warm);
        rows.step_s.emplace_back(warm, rank.end());
      }
      const std::vector<double> steady_s(job.begin() + static_cast<std::ptrdiff_t>(cut), job.end());
      std::tie(recorded_.window_at, recorded_.window_steps) =
          steps_left_out(*file_of(recorded_.ranks.front()));
      note_shift(steady);
      assign_window_cost(recorded_, longest_steps(series(steps_inside)), steady_s);
    } else {
      for (const measure::RankStamps& rank : stamps_) {
        std::vector<double>& own = rows.step_s.emplace_back();
        for (const measure::StepStamps& step : rank.steps) own.push_back(step.end_s - step.begin_s);
      }
      run_.warmup_choice = "no steps: the window is all that was recorded";
      note(
          "Rates are those of the profiler's window, which slows a training down: `lockstep record` measures "
          "steps outside of it, too.");
    }
    run_.stopped = "the recording ended";
    run_.recorded = recorded_;
    results::summarize(run_, rows);
    std::ranges::move(results::series_warnings(run_), std::back_inserter(run_.warnings));
  }

  results::RunRecord record() {
    results::RunRecord record;
    record.source = results::kRecordedSource;
    record.torch_version = of_files([](const RankFile& file) { return file.torch; });
    record.started_at = of_files([](const RankFile& file) { return file.started_at; });
    for (const Member& member : members_)
      if (member.file && record.command.empty()) record.command = member.file->command;
    const std::string gpu = most_common(gpus_);
    if (run_.device == "cuda" && !gpu.empty()) {
      for (const Member& member : members_)
        record.rank_gpus.push_back({member.file ? member.file->host : "", gpu, "", ""});
    }
    record.ranks = world_;
    record.threads_per_rank = run_.threads_per_rank;
    record.strategies = {run_.strategy};
    record.distributed_backend = run_.backend;
    record.bucket_size_mb = 0;
    run_.recorded->notes = notes_;
    record.runs.push_back(std::move(run_));
    results::assign_baselines(record);
    results::assign_factors(record);
    if (options_.stamps) *options_.stamps = std::move(stamps_);
    return record;
  }

  const ImportOptions& options_;
  std::vector<Member> members_;
  std::vector<PlacedSteps> placed_;
  std::vector<std::string> backends_, gpus_, notes_;
  std::set<std::string> forwards_;
  /// [rank]: what is drawn beside its steps.
  std::map<int, std::vector<measure::KernelSpan>> events_;
  bool on_device_ = false;
  int world_ = 1;
  results::Run run_;
  Recorded recorded_;
  std::vector<measure::RankStamps> stamps_;
};

}  // namespace

results::RunRecord import_job(const ImportOptions& options) {
  return Importer(options).import();
}

void add_alone(results::RunRecord& record, const results::RunRecord& alone) {
  const auto one = std::ranges::find_if(
      alone.runs, [](const results::Run& run) { return run.ranks == 1 && run.finished(); });
  if (one == alone.runs.end())
    throw ConfigError("--alone has no run of one rank",
                      "Give a trace, a recording or a result of the same script on one rank.");
  results::Run& run = record.runs.front();
  if (one->batch_is_known() != run.batch_is_known())
    throw ConfigError(
        fmt::format("how many samples {} trains in a step is not known, and the other's rate counts samples",
                    run.batch_is_known() ? "--alone" : "a rank of the job"),
        "--samples-per-step N says it for traces; a result says it if it was imported with that flag.");
  results::Run baseline = *one;
  const double of_one = one->images_per_rank_step(), of_rank = run.images_per_rank_step();
  // Epochs of other lengths end with smaller batches.
  const auto same = [&](double samples) { return std::abs(of_one - samples) < 0.1 * of_one; };
  static_cast<results::Setup&>(baseline) = run;
  baseline.ranks = baseline.hosts = 1;
  baseline.strategy = results::kSingle;
  baseline.backend.clear();
  if (!run.batch_is_known()) {
    // Steps of a rank are compared with steps of the one.
  } else if (same(of_rank * run.ranks) && run.ranks > 1) {
    // The job's whole batch on one rank: strong scaling.
    run.global_batch = baseline.global_batch = one->batch_per_rank * one->accumulate;
    baseline.batch_per_rank = one->batch_per_rank;
    baseline.accumulate = one->accumulate;
  } else if (!same(of_rank)) {
    throw ConfigError(
        fmt::format("--alone trains {:.4g} samples in a step, and a rank of the job {:.4g}", of_one, of_rank),
        "Record one rank with the same batch per rank, or with the whole batch of the job.");
  }
  record.runs.insert(record.runs.begin(), std::move(baseline));
  results::assign_baselines(record);
  results::assign_factors(record);
}

}  // namespace lockstep::recordings
