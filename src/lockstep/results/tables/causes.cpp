#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/measure/phases.h"
#include "lockstep/measure/series.h"
#include "lockstep/results/record/baseline.h"
#include "lockstep/results/tables/document.h"
#include "lockstep/results/tables/tables.h"

namespace lockstep::results {
namespace {

using measure::median_of;
using measure::PhaseSeries;
using measure::RankBreakdown;

/// The share of a loss that a cause must explain to be named.
inline constexpr double kCovers = 0.8;

/// The rank that the others wait for, and what takes it longer than them.
struct SlowRank {
  /// Its place among the ranks.
  size_t place = 0;
  /// "forward pass", or "step without communication" where several phases are longer.
  const char* phase = "";
  /// A sentence.
  const char* advice = "";
  /// By how much, in the median step, in seconds; and the part of it that the others waited for.
  double longer_s = 0;
  double lost_s = 0;
  /// Whether chance alone would bring that once in 700 times.
  bool is_certain = false;
};

using Series = std::vector<double> PhaseSeries::*;

/// Communication runs beside the backward pass, and may take so much more of one rank's cores than of
/// another's. A slow device makes the forward pass longer by a similar share.
constexpr double kDisturbed = 0.2;
constexpr double kSimilar = 2;

constexpr const char* kDevice = "Compare that rank's device, its clock and its load with the others'.";

struct NamedPhase {
  const char* name;
  Series series;
  const char* advice;
};

constexpr std::array<NamedPhase, 4> kRankPhases{
    {{"input", &PhaseSeries::input_s,
      "Look at what that rank does before its first operation: its DataLoader's workers and disk, its "
      "samples."},
     {"forward pass", &PhaseSeries::forward_s,
      "Compare that rank's device, its load and its samples with the others'."},
     {"backward pass", &PhaseSeries::backward_s, kDevice},
     {"optimizer", &PhaseSeries::optimizer_s, kDevice}}};

/// By their mean and three standard errors, or by the number of those above 0, which a few large ones cannot
/// hide.
bool is_beyond_chance(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  const double error = std::sqrt(measure::squared_deviations(values) / (count - 1) / count);
  const auto above = std::ranges::count_if(values, [](double value) { return value > 0; });
  return (count > 1 && measure::mean_of(values) > 3 * error) ||
         static_cast<double>(above) > count / 2 + 1.5 * std::sqrt(count);
}

/// Mean time of the others, in every step.
std::vector<double> others_s(const std::vector<RankBreakdown>& ranks, size_t place, Series phase) {
  std::vector<double> mean_s((ranks[place].series.*phase).size(), 0);
  for (const RankBreakdown& rank : ranks) {
    const std::vector<double>& own_s = rank.series.*phase;
    if (&rank == &ranks[place]) continue;
    for (size_t i = 0; i < std::min(mean_s.size(), own_s.size()); ++i)
      mean_s[i] += own_s[i] / static_cast<double>(ranks.size() - 1);
  }
  return mean_s;
}

void subtract(std::vector<double>& from, const std::vector<double>& values) {
  std::ranges::transform(from, values, from.begin(), std::minus());
}

/// Finds it by the phases of every step of all ranks; empty if no phases of it explain 80 % of the waiting.
/// Medians decide, since one step that the system disturbed may hold more waiting than ten others.
std::optional<SlowRank> find_slow_rank(const std::vector<RankBreakdown>& ranks) {
  if (ranks.size() < 2) return std::nullopt;
  const auto waits = [](const RankBreakdown& rank) { return rank.mean.waiting_s; };
  const auto place = static_cast<size_t>(std::ranges::min_element(ranks, {}, waits) - ranks.begin());
  if (ranks[place].series.waiting_s.empty()) return std::nullopt;
  std::array<std::vector<double>, kRankPhases.size()> longer_s;
  std::array<double, kRankPhases.size()> share{};
  for (size_t i = 0; i < kRankPhases.size(); ++i) {
    const std::vector<double> others = others_s(ranks, place, kRankPhases[i].series);
    longer_s[i] = ranks[place].series.*kRankPhases[i].series;
    subtract(longer_s[i], others);
    share[i] = measure::mean_of(others) > 0 ? median_of(longer_s[i]) / measure::mean_of(others) : 0;
  }
  const std::vector<double> waited_s = others_s(ranks, place, &PhaseSeries::waiting_s);
  double to_explain_s = median_of(waited_s);
  const double forward = share[1], backward = share[2];
  const bool is_similar = forward * kSimilar > backward && forward < kSimilar * backward;
  if (std::abs(backward) < kDisturbed && !is_similar) {
    std::vector<double> undisturbed_s = waited_s;
    subtract(undisturbed_s, longer_s[2]);
    to_explain_s = std::min(to_explain_s, median_of(undisturbed_s));
    longer_s[2].assign(longer_s[2].size(), 0);
  }
  SlowRank found{.place = place};
  std::vector<double> all_s(waited_s.size(), 0), most_s;
  for (size_t i = 0; i < kRankPhases.size(); ++i) {
    // While it is late, others may take longer for what they do meanwhile.
    if (median_of(longer_s[i]) <= 0) continue;
    std::ranges::transform(all_s, longer_s[i], all_s.begin(), std::plus());
    if (median_of(longer_s[i]) <= median_of(most_s)) continue;
    most_s = longer_s[i];
    found.phase = kRankPhases[i].name;
    found.advice = kRankPhases[i].advice;
  }
  if (most_s.empty() || median_of(all_s) < kCovers * to_explain_s) return std::nullopt;
  if (2 * median_of(most_s) < median_of(all_s)) {
    most_s = all_s;
    found.phase = "step without communication";
    found.advice = kDevice;
  }
  found.longer_s = median_of(most_s);
  found.lost_s = std::min(found.longer_s, measure::mean_of(waited_s));
  found.is_certain = is_beyond_chance(most_s);
  return found;
}

using Kind = Cause::Kind;
/// Collectives of a step, by their places in it.
using Places = std::vector<size_t>;

/// The share of a step below which nothing is worth a sentence.
constexpr double kLeastCause = 0.02;
/// An input that takes more of a step than this starves it.
constexpr double kStarved = 0.1;
/// DistributedDataParallel's own size of a bucket that is to leave without delay, in bytes: smaller ones save
/// little.
constexpr int64_t kSmallBucket = int64_t{1} << 20;
/// As many collectives of a step are many.
constexpr int64_t kMany = 16;
/// A device that is idle for more of the time than this has a host that cannot keep up.
constexpr double kIdle = 0.2;
/// The share that is all of something, within the errors of clocks and means.
constexpr double kAll = 0.95;
/// The steps before the window are a warm-up's if their median is so many times that of the later ones.
constexpr std::ptrdiff_t kStepsBefore = 10;
constexpr double kWarmingUp = 2;
/// The percentile of later steps that few exceed.
constexpr double kRarely = 95;

Places first_places(size_t count) {
  Places places(count);
  std::iota(places.begin(), places.end(), size_t{0});
  return places;
}

/// Finds the causes of one run, which has a breakdown with ranks.
class Causes {
 public:
  explicit Causes(const Run& run)
      : run_(run), recorded_(*run.recorded), ranks_(run.breakdown->ranks), mean_(run.breakdown->mean) {
    for (const RecordedWork& work : recorded_.work) {
      if (work.on_device) devices_.add(work);
    }
    if (devices_.window_s > 0) idle_ = 1 - (devices_.compute_s + devices_.exposed_s) / devices_.window_s;
  }

  std::vector<Cause> find() {
    find_periodic();
    if (!find_warm_up()) {
      if (!find_unequal_sizes()) find_slow_rank();
      find_input();
      find_threads();
      find_communication();
      find_idle_device();
    }
    add_periodic();
    std::ranges::stable_sort(causes_, std::greater(), [](const Cause& cause) {
      return cause.lost_s > 0 ? cause.lost_s : std::numeric_limits<double>::infinity();
    });
    return std::move(causes_);
  }

 private:
  void add(Kind kind, double lost_s, std::string text, std::string advice) {
    if (lost_s >= kLeastCause * mean_.step_s)
      causes_.push_back({kind, lost_s, std::move(text), std::move(advice)});
  }

  /// Mean over the ranks.
  template <typename Get>
  double mean_of(Get get) const {
    double sum = 0;
    for (const RankBreakdown& rank : ranks_) sum += get(rank);
    return sum / static_cast<double>(ranks_.size());
  }

  /// The window should follow the warm-up; phases of steps in it say nothing of the later ones.
  bool find_warm_up() {
    const auto at = static_cast<std::ptrdiff_t>(recorded_.window_at);
    const std::vector<double> slow_s = per_step_maxima(run_.warmup_samples);
    if (recorded_.window_steps == 0 || at < kStepsBefore || std::ssize(slow_s) < at || run_.samples.empty())
      return false;
    const std::vector<double> later_s = per_step_maxima(run_.samples);
    const double before_s =
        measure::median_of(std::span(slow_s).subspan(static_cast<size_t>(at - kStepsBefore), kStepsBefore));
    const double times = before_s / measure::median_of(later_s);
    // Where other work comes and goes, later steps are as long now and then.
    if (!(times >= kWarmingUp) || before_s <= measure::percentile(later_s, kRarely)) return false;
    const int64_t steps = std::ssize(slow_s) + recorded_.window_steps;
    causes_.push_back(
        {Kind::kWarmUp, 0,
         fmt::format("the profiler's window is part of a warm-up of {} steps, which take {:.3g} "
                     "times as long as the later ones: its phases are not theirs",
                     steps, times),
         fmt::format("Look at later steps: --steps {}:{}.", steps + 5, steps + 25)});
    return true;
  }

  /// Threads that take turns on the cores of a host slow down whatever computes.
  void find_threads() {
    const std::vector<int>&threads = recorded_.threads, &cores = recorded_.cores;
    if (threads.empty() || cores.empty() || run_.hosts == 0) return;
    const int ranks = std::max(1, run_.ranks / run_.hosts), usable = *std::ranges::max_element(cores);
    const int all = ranks * *std::ranges::max_element(threads);
    if (usable == 0 || all <= usable) return;
    // The share of backward and optimizer in which the training's own thread had no core.
    const double lacking = mean_of([](const RankBreakdown& rank) {
      const double had_s = rank.processor.backward_s + rank.processor.optimizer_s;
      return had_s > 0 ? 1 - had_s / (rank.mean.backward_s + rank.mean.optimizer_s) : 0;
    });
    const auto slowed = std::erase_if(causes_, [](const Cause& cause) {
      return cause.kind == Kind::kSlowRank || cause.kind == Kind::kInput;
    });
    if (slowed == 0 && lacking < kStarved) return;
    causes_.push_back({Kind::kThreads, 0,
                       fmt::format("{} of {} each take turns on the {} of a host", counted(ranks, "rank"),
                                   counted(all / ranks, "thread"), counted(usable, "core")),
                       usable < ranks
                           ? "Start as many ranks as there are cores, with OMP_NUM_THREADS=1."
                           : fmt::format("Set OMP_NUM_THREADS={} for the command.", usable / ranks)});
  }

  void find_slow_rank() {
    const auto slow = results::find_slow_rank(ranks_);
    if (!slow) return;
    const int rank = recorded_.ranks[slow->place];
    if (run_.breakdown->straggler.value_or(rank) != rank || add_unequal_batches(slow->place, slow->lost_s) ||
        !slow->is_certain)
      return;
    add(Kind::kSlowRank, slow->lost_s,
        fmt::format("rank {}'s {} takes {} longer than that of the others", rank, slow->phase,
                    time_text(slow->longer_s)),
        slow->advice);
  }

  bool add_unequal_batches(size_t place, double lost_s) {
    std::vector<int64_t> others = recorded_.batches;
    if (place >= others.size() || lost_s <= 0) return false;
    const int64_t own = others[place];
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(place));
    const int64_t next = *std::ranges::max_element(others);
    if (own <= next) return false;
    add(Kind::kUnequalBatches, lost_s,
        fmt::format("rank {} trains {} samples in a step, the others {} at most", recorded_.ranks[place], own,
                    next),
        "Give every rank as many samples: DistributedSampler, and drop_last=True.");
    return true;
  }

  /// Steps in which the rank with the largest input, not always the same one, waits least for others.
  bool find_unequal_sizes() {
    const std::vector<std::vector<int64_t>>& elements = recorded_.input_elements;
    if (elements.size() != ranks_.size() || ranks_.size() < 2) return false;
    size_t unequal = 0, latest = 0, steps = elements.front().size();
    std::set<size_t> largest_ranks;
    const Places places = first_places(ranks_.size());
    for (const size_t rank : places)
      steps = std::min({steps, elements[rank].size(), ranks_[rank].series.waiting_s.size()});
    for (size_t step = 0; step < steps; ++step) {
      const auto size = [&](size_t rank) { return elements[rank][step]; };
      const auto waiting = [&](size_t rank) { return ranks_[rank].series.waiting_s[step]; };
      const auto [least, most] = std::ranges::minmax(places, {}, size);
      if (size(least) <= 0 || size(most) == size(least)) continue;
      ++unequal;
      latest += std::ranges::min(places, {}, waiting) == most ? 1 : 0;
      largest_ranks.insert(most);
    }
    if (3 * unequal < steps || 3 * latest < 2 * unequal || largest_ranks.size() < 2) return false;
    add(Kind::kUnequalSizes, mean_.waiting_s,
        fmt::format(
            "in {} of {} steps the inputs of the ranks differ in size, and the rank with the largest, "
            "another one from step to step, is waited for",
            unequal, steps),
        "Sort the samples by size, so that ranks have equal ones in a step, or pad them.");
    return true;
  }

  void find_input() {
    // Waiting for a slow rank's input is that rank's.
    const RankBreakdown& rank =
        *std::ranges::min_element(ranks_, {}, [](const RankBreakdown& each) { return each.mean.input_s; });
    double lost_s = rank.mean.input_s;
    if (lost_s < kStarved * mean_.step_s) return;
    std::vector<double> long_s = rank.series.input_s;
    const double usual_s = long_s.empty() ? lost_s : measure::median_of(long_s);
    const bool is_own = !recorded_.has_loader.value_or(true);
    const auto text = [&](const std::string& which, double wait_s) {
      return fmt::format(
          "{} {} {} {}", which, is_own ? "spends" : "waits", time_text(wait_s),
          is_own ? "in the script's own Python before its first operation (no DataLoader)" : "for its batch");
    };
    const char* const own = "Look at what the script itself does there: files, logs, a simulator.";
    if (2 * usual_s >= lost_s)
      return add(Kind::kInput, lost_s, text("every step", usual_s),
                 is_own ? own
                        : "Give the DataLoader more workers (num_workers), persistent_workers=True and "
                          "pin_memory=True, or decode less.");
    const auto others = std::erase_if(long_s, [&](double wait_s) { return wait_s <= lost_s; });
    const double longer_s = measure::mean_of(long_s);
    lost_s -= usual_s;
    std::string which = fmt::format("{} of {} steps", long_s.size(), long_s.size() + others);
    // Steps outside of the window that take as much longer wait for their batches, too.
    if (periodic_ && 2 * periodic_->longer_s > longer_s && periodic_->longer_s < 2 * longer_s) {
      which = fmt::format("one of {} steps", periodic_->apart);
      lost_s = periodic_s_;
      periodic_.reset();
    }
    add(Kind::kFewInputs, lost_s,
        fmt::format("{}, and the others {}", text(which, longer_s), time_text(usual_s)),
        is_own ? own
               : "Where an epoch begins there, persistent_workers=True keeps the DataLoader's workers; else "
                 "look "
                 "for a disk or a cache that is slow now and then.");
  }

  /// Transfer of these buckets that nothing hid, mean over ranks.
  double exposed_s(const Places& buckets) const {
    return mean_of([&](const RankBreakdown& rank) {
      double sum_s = 0;
      for (const size_t i : buckets) sum_s += i < rank.buckets.size() ? rank.buckets[i].exposed_s : 0;
      return sum_s;
    });
  }

  /// The time in which at least one of these buckets moves, hidden or not, mean over ranks.
  double moving_s(const Places& buckets) const {
    return mean_of([&](const RankBreakdown& rank) {
      std::vector<measure::Stretch> stretches;
      for (const size_t i : buckets) stretches.push_back(moving(rank, i));
      return total_s(measure::merged(std::move(stretches)));
    });
  }

  bool ranks_are_late() const {
    return std::ranges::any_of(causes_, [](const Cause& cause) {
      return cause.kind == Kind::kSlowRank || cause.kind == Kind::kUnequalBatches ||
             cause.kind == Kind::kUnequalSizes;
    });
  }

  const RecordedCollective& collective(size_t i) const { return recorded_.collectives[i]; }
  bool is_ddp() const { return run_.strategy == "ddp"; }

  /// Some of the collectives of a step.
  struct Several {
    /// "all-reduce", or "collective" where they are of several kinds; with number and size.
    std::string kind, text;
    int64_t bytes = 0;
    bool sizes_known = true, small = true, short_elements = false;
  };
  Several described(const Places& places) const {
    Several found{.kind = collective(places.front()).kind, .text = ""};
    for (const size_t i : places) {
      const RecordedCollective& each = collective(i);
      if (each.kind != found.kind) found.kind = "collective";
      found.bytes += each.bytes;
      found.sizes_known = found.sizes_known && (each.bytes > 0 || each.kind == "barrier");
      found.small = found.small && found.sizes_known && each.bytes < kLatencyBytes;
      found.short_elements = found.short_elements || each.element_bytes == 2;
    }
    found.text = counted(std::ssize(places), found.kind);
    if (found.sizes_known) {
      found.text += fmt::format(" of {}{}", format_bytes(found.bytes / std::ssize(places)),
                                places.size() > 1 ? " on average" : "");
    }
    return found;
  }

  void find_communication() {
    Places rest = first_places(recorded_.collectives.size());
    if (rest.empty() || find_reduced_too_often(rest)) return;
    double lost_s = mean_.transfer_s;
    if (is_ddp()) lost_s -= take_buffers(rest);
    // What is left is that of the others.
    if (take_blocking(rest)) lost_s = exposed_s(rest);
    if (!rest.empty()) find_transfer(rest, lost_s);
  }

  /// Gradients that are summed up in every micro-batch, or once more by the script. They cost what they
  /// expose, and those that are hidden cores or bandwidth, so that their time decides.
  bool find_reduced_too_often(const Places& places) {
    double gradients = 0, sum = 0;
    for (const RecordedGradient& gradient : recorded_.gradients)
      gradients += static_cast<double>(gradient.elements);
    Places again;
    for (const size_t i : places) {
      if (collective(i).kind != "all-reduce") continue;
      if (sum >= kAll * gradients) again.push_back(i);
      const int size = collective(i).element_bytes > 0 ? collective(i).element_bytes : 4;
      sum += static_cast<double>(collective(i).bytes) / size;
    }
    const double times = gradients > 0 ? std::round(sum / gradients) : 0, needless_s = moving_s(again);
    if (times < 2 || std::abs(sum / gradients - times) > 1 - kAll || needless_s < kLeastCause * mean_.step_s)
      return false;
    const bool by_batch = times == run_.accumulate;
    causes_.push_back(
        {Kind::kReducedTooOften, by_batch ? mean_.exposed_s() * (times - 1) / times : exposed_s(again),
         fmt::format("{} all gradients, where once would do: {} of needless communication, hidden or not{}",
                     by_batch ? fmt::format("each of {:.0f} micro-batches reduces", times)
                              : fmt::format("a step reduces {:.0f} times", times),
                     time_text(needless_s),
                     by_batch ? "" : fmt::format(", in the last {}", described(again).text)),
         !is_ddp() ? "Reduce them once, after the last backward pass of a step."
         : by_batch
             ? "Put every backward pass but the last of a step into DistributedDataParallel's no_sync()."
             : "DistributedDataParallel has averaged them: leave out the script's own all-reduces."});
    return true;
  }

  /// This and the next take the collectives that they explain from `rest`; this returns their exposed
  /// transfer.
  double take_buffers(Places& rest) {
    // Broadcasts after the last all-reduce are of updated parameters, not of buffers.
    const auto last = std::ranges::find(rest.rbegin(), rest.rend(), "all-reduce",
                                        [&](size_t i) { return collective(i).kind; });
    const auto end = last.base();
    const auto buffers =
        std::stable_partition(rest.begin(), end, [&](size_t i) { return collective(i).kind != "broadcast"; });
    const Places taken(buffers, end);
    rest.erase(buffers, end);
    add(Kind::kBuffers, exposed_s(taken),
        fmt::format("forward passes broadcast buffers for {}", time_text(exposed_s(taken))),
        "DistributedDataParallel(..., broadcast_buffers=False) leaves that out where ranks need no common "
        "running statistics.");
    return exposed_s(taken);
  }

  /// Collectives that forward and backward stop for: exposed for most of their time, with nothing issued
  /// meanwhile and something left to compute. A device whose host is late does not wait for them.
  bool take_blocking(Places& rest) {
    if (idle_ >= kIdle) return false;
    const double computing_s = mean_.input_s + mean_.forward_s + mean_.backward_s;
    const auto time_s = [&](size_t i, double BucketTimes::*time) {
      return mean_of(
          [&](const RankBreakdown& rank) { return i < rank.buckets.size() ? rank.buckets[i].*time : 0; });
    };
    Places found;
    double blocked_s = 0;
    for (size_t at = 0; at + 1 < rest.size(); ++at) {
      const size_t i = rest[at];
      const double issued_s = time_s(i, &BucketTimes::ready_s), ended_s = time_s(i, &BucketTimes::ended_s);
      if (issued_s - blocked_s >= kAll * computing_s) break;
      if (exposed_s({i}) <= 0 || 2 * exposed_s({i}) < moving_s({i}) ||
          time_s(rest[at + 1], &BucketTimes::ready_s) < ended_s)
        continue;
      blocked_s += ended_s - issued_s;
      found.push_back(i);
    }
    // Some of a kind are exposed by chance; and longer than what is exposed in all are those beside
    // computing.
    const auto is_alike = [&](size_t i) {
      return std::ranges::any_of(found, [&](size_t j) { return collective(i).kind == collective(j).kind; });
    };
    if (found.empty() || std::ssize(found) * 2 < std::ranges::count_if(rest, is_alike) ||
        kCovers * blocked_s > mean_.exposed_s())
      return false;
    // The waiting is that of ranks that are late, where these are known.
    const double lost_s = ranks_are_late() ? exposed_s(found) : std::min(blocked_s, mean_.exposed_s());
    const Several these = described(found);
    add(Kind::kBlocking, lost_s,
        fmt::format("forward and backward wait for {}, of {} collectives in a step, for {}{}", these.text,
                    recorded_.collectives.size(), time_text(lost_s), these.small ? " of latency" : ""),
        these.kind == "all-to-all" ? "Exchange less, or compute meanwhile what does not depend on it."
        : these.kind == "all-gather" || these.kind == "reduce-scatter"
            ? "Prefetch them (FSDP's forward_prefetch and backward_prefetch), or train more samples per step."
            : "Fewer or joined ones: synchronized batch normalization and tensor parallelism have some for "
              "every layer.");
    std::erase_if(rest, [&](size_t i) { return std::ranges::binary_search(found, i); });
    return true;
  }

  /// Finds why `lost_s` of the transfers of these collectives is exposed.
  void find_transfer(const Places& places, double lost_s) {
    const auto bytes_of = [&](size_t i) { return collective(i).bytes; };
    const Several all = described(places);
    const double all_s = moving_s(places);
    const bool is_much = lost_s >= kStarved * mean_.step_s,
               is_partial = recorded_.ranks.size() < static_cast<size_t>(run_.ranks);
    const std::string take = places.size() == 1 ? "takes" : "take";
    const auto at_rate = [&](int64_t bytes, double in_s) {
      return all.sizes_known && in_s > 0
                 ? fmt::format(" at {:.3g} GB/s", static_cast<double>(bytes) / in_s / 1e9)
                 : "";
    };
    if (std::ssize(places) >= kMany &&
        (all.sizes_known ? all.bytes / std::ssize(places) < kSmallBucket : !is_ddp())) {
      add(Kind::kManyCollectives, lost_s, fmt::format("a step has {}", all.text),
          all.kind == "all-reduce"
              ? "Reduce them in buckets: DistributedDataParallel (its bucket_cap_mb), or one flat tensor."
              : "Join them, or make them rarer.");
    } else if (all.small) {
      // A backend's late end of a wait looks like latency.
      if (ranks_are_late() && lost_s < mean_.waiting_s) return;
      add(Kind::kLatency, lost_s,
          fmt::format("{} {} {} of latency, as long as fewer bytes would{}", all.text, take, time_text(all_s),
                      is_partial ? ", or ranks come later" : ""),
          "Fewer, joined or rarer collectives help, and more samples per step.");
    } else if (is_partial) {
      if (all_s <= mean_.backward_s && !is_much) return;
      add(Kind::kLinkOrLateRanks, lost_s,
          fmt::format("{} of communication is not hidden: a link, or ranks that come later",
                      time_text(lost_s)),
          "Import the others' traces, which tell these apart.");
    } else if (!is_ddp() && all.kind == "all-reduce" && exposed_s(places) >= kAll * all_s) {
      add(Kind::kAfterBackward, lost_s,
          fmt::format("{} {} {}{} while nothing computes", all.text, take, time_text(all_s),
                      at_rate(all.bytes, all_s)),
          "DistributedDataParallel reduces buckets while backward goes on.");
    } else if (all_s > mean_.backward_s) {
      add(Kind::kSlowLink, lost_s,
          fmt::format("communication takes {}{}, and backward, which could hide it, {}", time_text(all_s),
                      at_rate(all.bytes, all_s), time_text(mean_.backward_s)),
          fmt::format("Look for a faster path between the ranks{}, or train more samples per step.",
                      is_ddp() && !all.short_elements && !recorded_.has_hook
                          ? ", send less (a bf16 communication hook)"
                          : ""));
    } else if (const size_t most = std::ranges::max(places, {}, [&](size_t i) { return exposed_s({i}); });
               exposed_s({most}) >= kCovers * lost_s && (bytes_of(most) > kSmallBucket || is_much)) {
      const double most_s = moving_s({most});
      add(Kind::kOneBucket, lost_s,
          fmt::format("most of what is not hidden is number {} of {}: {}{}",
                      std::ranges::find(places, most) - places.begin() + 1, all.text, time_text(most_s),
                      all.sizes_known ? fmt::format(" for {}{}", format_bytes(bytes_of(most)),
                                                    at_rate(bytes_of(most), most_s))
                                      : ""),
          is_ddp() ? "A smaller bucket_cap_mb lets its first gradients leave earlier, unless it is a single "
                     "large one; more samples per step hide more."
                   : "Split it, so that its first part leaves earlier, or train more samples per step.");
    }
  }

  /// Finds why a device has nothing to do: the host waits for it first, or issues its kernels too slowly.
  void find_idle_device() {
    if (idle_ < kIdle) return;
    const double steps = devices_.window_s / mean_.step_s, calls = devices_.synchronizations / steps;
    // Without the calls a step takes as long as the host or the device works, whichever is longer.
    const double waiting = devices_.synchronized_s / devices_.window_s,
                 synchronizing = std::min(idle_, waiting);
    add(Kind::kSynchronizing, synchronizing * mean_.step_s,
        fmt::format("the device is idle for {} of a step because the host first waits for it, {} in {:.3g} "
                    "call{}, and launches nothing meanwhile",
                    time_text(synchronizing * mean_.step_s), time_text(waiting * mean_.step_s), calls,
                    calls > 1 ? "s" : ""),
        "Read losses and metrics (.item(), .cpu(), print) every so many steps, not in each.");
    // The profiler slows the host, not the device.
    const double bare = 1 - (1 - idle_) * std::max(1.0, recorded_.window_cost.value_or(1));
    const double late_s = (bare - synchronizing) * mean_.step_s - mean_.input_s;
    if (bare < kIdle) return;
    add(Kind::kSlowHost, late_s,
        fmt::format("the device is idle for {} of a step because the host is late with its {:.0f} kernels{}",
                    time_text(late_s), devices_.kernels / steps,
                    recorded_.window_cost ? ", the profiler's cost left out" : ""),
        "Give the device fewer and longer kernels: more samples a step, torch.compile (its mode "
        "\"reduce-overhead\" records CUDA graphs), an optimizer with fused=True.");
  }

  void find_periodic() {
    // Warm-up has its periods, too.
    std::vector<double> step_s = per_step_maxima(run_.warmup_samples);
    for (const double each : per_step_maxima(run_.samples)) step_s.push_back(each);
    Places numbers = first_places(step_s.size());
    // The steps of the profiler's window are missing in between.
    for (size_t& number : numbers) {
      if (static_cast<int>(number) >= recorded_.window_at)
        number += static_cast<size_t>(recorded_.window_steps);
    }
    periodic_ = measure::find_periodic_steps(step_s, numbers);
    if (periodic_) periodic_s_ = periodic_->longer_s * periodic_->count / static_cast<double>(step_s.size());
  }

  void add_periodic() {
    if (const int skipped = recorded_.skipped_updates; skipped > 0) {
      const auto steps =
          static_cast<double>(run_.warmup_samples.size() + run_.samples.size()) + recorded_.window_steps;
      add(Kind::kSkippedUpdates, mean_.step_s * skipped / std::max<double>(steps, skipped),
          fmt::format("{} of {:.0f} steps make no update: a GradScaler skips it where gradients overflow",
                      skipped, std::max<double>(steps, skipped)),
          "Train in bf16, or give the scaler a smaller init_scale or a longer growth_interval.");
    } else if (periodic_) {
      add(Kind::kPeriodic, periodic_s_,
          fmt::format("every {} steps one takes {} longer: {}", periodic_->apart,
                      time_text(periodic_->longer_s),
                      recorded_.evaluation_steps > 0
                          ? "evaluation"
                          : "evaluation, a checkpoint, a log or a new epoch, by the looks of it"),
          "Do that less often, or beside the training.");
    }
  }

  const Run& run_;
  const Recorded& recorded_;
  const std::vector<RankBreakdown>& ranks_;
  const PhaseTimes& mean_;
  /// The work of all devices, and the share of the time in which they have nothing to do.
  RecordedWork devices_;
  double idle_ = 0;
  /// Steps outside of the window that take longer, and their cost in seconds per step.
  std::optional<measure::PeriodicSteps> periodic_;
  double periodic_s_ = 0;
  std::vector<Cause> causes_;
};

}  // namespace

std::vector<Cause> causes_of(const Run& run) {
  if (!run.recorded || !run.breakdown || run.breakdown->ranks.empty() || !(run.breakdown->mean.step_s > 0) ||
      run.recorded->steps < kFewestSteps)
    return {};
  return Causes(run).find();
}

}  // namespace lockstep::results
