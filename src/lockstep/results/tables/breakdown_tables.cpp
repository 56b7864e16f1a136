#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/units.h"
#include "lockstep/results/record/baseline.h"
#include "lockstep/results/tables/document.h"
#include "lockstep/results/tables/row_tables.h"
#include "lockstep/results/tables/tables.h"

namespace lockstep::results {
namespace {

using topology::GpuUse;
using topology::Spread;

struct Factor {
  const char* head;
  double EfficiencyFactors::*value;
  std::optional<double> EfficiencyFactors::HalfWidths::*half_width;
};

using HalfWidths = EfficiencyFactors::HalfWidths;
constexpr std::array<Factor, 4> kFactors{
    {{"= machine", &EfficiencyFactors::machine, &HalfWidths::machine},
     {"x strategy", &EfficiencyFactors::strategy, &HalfWidths::strategy},
     {"x transfer", &EfficiencyFactors::transfer, &HalfWidths::transfer},
     {"x stragglers", &EfficiencyFactors::stragglers, &HalfWidths::stragglers}}};

/// The share of a step below which a narrow screen has no room for a phase.
constexpr double kSmallPhase = 0.05;

/// Digits after the point of milliseconds that leave four of the shortest step.
int milliseconds_digits(const std::vector<const Run*>& rows) {
  double least_s = std::numeric_limits<double>::infinity();
  for (const Run* run : rows) least_s = std::min(least_s, run->breakdown->mean.step_s);
  return least_s < 0.01 ? 3 : least_s < 0.1 ? 2 : 1;
}

/// Whether the ranks of a row that communicates leave no core of some host to the communicator's threads.
bool no_core_is_spare(const RunRecord& record, const Run& run) {
  return communicates(run) && run.ranks > 1 && spare_cores(record, run).value_or(1) <= 0;
}

/// "97.3 ±1.2", in per cent.
std::string factor_text(double value, const std::optional<double>& half_width) {
  if (!half_width || !std::isfinite(value)) return fixed_text(100 * value, 1);
  // The width of an interval wider than the factor itself is meaningless.
  if (*half_width > 1) return fmt::format("{:.1f} ±>100", 100 * value);
  return fmt::format("{:.1f} ±{:.1f}", 100 * value, 100 * *half_width);
}

std::string straggler_text(const Run& run) {
  if (!run.breakdown || !run.breakdown->straggler) return kNoValue;
  return fmt::format("rank {}", *run.breakdown->straggler);
}

/// "83 %" of communication was hidden.
std::string hidden_text(const Run& run) {
  // overlap() is empty for one rank, which has nobody to hide communication from.
  return run.breakdown ? percent_text(run.breakdown->overlap(), 0) : kNoValue;
}

/// Bytes that a rank sends over its link per byte of a bucket, by the formulas of nccl-tests; empty for
/// exchanges of other kinds. `kind`: of a recorded collective; empty: that of the strategy.
std::optional<double> bus_factor(const Run& run, const std::string& kind) {
  const double share = (run.ranks - 1.0) / run.ranks;
  if (kind == "all-reduce") return 2 * share;
  if (kind == "reduce-scatter") return share;
  if (!kind.empty()) return std::nullopt;
  if (run.strategy == "sharded") return share;
  if (run.strategy == "ddp" || run.strategy == "replicated" || run.strategy == "horovod" ||
      run.strategy == "local_sgd")
    return 2 * share;
  return std::nullopt;
}

/// Mebibytes with two digits, or as many as tell some bytes from none; "-" where a recording does not say.
std::string bytes_text(const Run& run, double bytes) {
  if (run.recorded && bytes == 0) return kNoValue;
  const double mebibytes = bytes / static_cast<double>(kMiB);
  return fixed_text(mebibytes, run.recorded && mebibytes < 0.01 ? 6 : 2);
}

/// A row for each of the first buckets of a run; the first names the run.
Table buckets_table(const std::vector<const Run*>& rows) {
  constexpr size_t kMostBuckets = 8;
  Table table{.columns = {"ranks", {"strategy", kText}, "bucket", "MiB", "ms", "algbw GB/s", "busbw GB/s"}};
  const bool recorded = std::ranges::any_of(rows, [](const Run* run) { return run->recorded.has_value(); });
  if (recorded) table.add_column({"collective", kText});
  for (const Run* run : rows) {
    const std::vector<RankBreakdown>& ranks = run->breakdown->ranks;
    for (size_t i = 0; i < std::min(kMostBuckets, ranks.front().buckets.size()); ++i) {
      const auto bytes = static_cast<double>(ranks.front().buckets[i].bytes);
      // From the arrival of the last rank to the end, mean over the ranks.
      double seconds = 0;
      for (const RankBreakdown& rank : ranks) {
        measure::Stretch moves = moving(rank, i);
        // The step that ends a period is longer than the mean.
        if (run->steps_per_sample() > 1 && i < rank.buckets.size())
          moves = {std::max(rank.buckets[i].started_s, rank.buckets[i].all_arrived_s),
                   rank.buckets[i].ended_s};
        seconds += (moves.end_s - moves.begin_s) / static_cast<double>(ranks.size());
      }
      std::optional<double> algbw, busbw;
      // Few bytes take as long as none, so their rate says nothing of a link.
      if (seconds > 0 && bytes > 0 && (!run->recorded || bytes >= kLatencyBytes))
        algbw = bytes / seconds / 1e9;
      const bool known = run->recorded && i < run->recorded->collectives.size();
      const std::string kind = known ? run->recorded->collectives[i].kind : "";
      if (const auto factor = bus_factor(*run, kind); algbw && factor) busbw = *algbw * *factor;
      std::vector<Cell> cells{i == 0 ? fmt::format("{}", run->ranks) : "",
                              i == 0 ? strategy_text(*run) : "",
                              fmt::format("{}", i + 1),
                              bytes_text(*run, bytes),
                              fixed_text(1000 * seconds, 3),
                              fixed_text(algbw, 2),
                              fixed_text(busbw, 2)};
      if (recorded) cells.emplace_back(kind);
      table.add_row(std::move(cells));
    }
  }
  return table;
}

constexpr size_t kColumns = 70;
constexpr size_t kMostRanks = 4;
constexpr size_t kLead = 9;

/// The first letter of its name; what is no phase has a dot.
char mark_of(const Phase& phase) {
  return phase.seconds == &PhaseTimes::other_s ? '.' : *phase.name;
}

/// Fills the columns of a stretch of time; at least one, unless it is shorter than a quarter of one.
void draw(std::string& line, double begin_s, double end_s, double step_s, char mark) {
  if (!((end_s - begin_s) / step_s * kColumns > 0.25)) return;
  const auto column = [&](double seconds) {
    const double place = std::round(std::clamp(seconds / step_s, 0.0, 1.0) * kColumns);
    return std::min(static_cast<size_t>(place), kColumns - 1);
  };
  const size_t first = column(begin_s), last = std::max(first + 1, column(end_s));
  std::fill(line.begin() + static_cast<std::ptrdiff_t>(first),
            line.begin() + static_cast<std::ptrdiff_t>(std::min(last, kColumns)), mark);
}

std::string phases_line(const RankBreakdown& rank, double step_s) {
  std::string line(kColumns, ' ');
  double at_s = 0;
  for (const Phase& phase : kPhases) {
    const double seconds = rank.mean.*phase.seconds;
    draw(line, at_s, at_s + seconds, step_s, mark_of(phase));
    at_s += std::max(0.0, seconds);
  }
  return line;
}

std::string buckets_line(const RankBreakdown& rank, double step_s) {
  std::string line(kColumns, ' ');
  for (size_t i = 0; i < rank.buckets.size(); ++i) {
    const BucketTimes& bucket = rank.buckets[i];
    const double arrived_s = std::max(bucket.started_s, bucket.all_arrived_s);
    draw(line, bucket.started_s, arrived_s, step_s, '-');
    draw(line, arrived_s, bucket.ended_s, step_s, static_cast<char>('0' + (i + 1) % 10));
  }
  return line;
}

/// The first ranks, and the straggler in place of the last of them.
std::vector<size_t> shown_ranks(const Run& run) {
  std::vector<size_t> places;
  for (size_t place = 0; place < run.breakdown->ranks.size(); ++place) {
    if (places.size() < kMostRanks) {
      places.push_back(place);
    } else if (run.is_straggler(place)) {
      places.back() = place;
    }
  }
  return places;
}

std::string line_of(const std::string& lead, std::string columns) {
  columns.erase(columns.find_last_not_of(' ') + 1);
  return fmt::format("{:<{}}{}\n", lead, kLead, columns);
}

struct MemoryPart {
  const char* name;
  ByteRange ReplicaMemory::*range;
};

constexpr std::array<MemoryPart, 8> kMemoryParts{{{"parameters", &ReplicaMemory::parameters},
                                                  {"gradients", &ReplicaMemory::gradients},
                                                  {"momenta", &ReplicaMemory::momenta},
                                                  {"send buffers", &ReplicaMemory::buffers},
                                                  {"together", &ReplicaMemory::total},
                                                  {"gathered", &ReplicaMemory::gathered},
                                                  {"activations", &ReplicaMemory::activations},
                                                  {"peak", &ReplicaMemory::peak}}};
/// Files from before they were measured lack the last ones.
constexpr size_t kAlwaysMeasured = 5;

/// "97.5 MiB", or "48.8 MiB to 97.5 MiB" where ranks differ.
std::string range_text(const ByteRange& range) {
  const std::string least = format_bytes(range.least);
  const std::string most = format_bytes(range.most);
  return least == most ? most : fmt::format("{} to {}", least, most);
}

/// "12345" faults of the rank that had the most; "-" in files from before they were counted.
std::string page_faults_text(const Run& run) {
  if (!run.resources || run.resources->page_faults.empty()) return kNoValue;
  return fmt::format("{}", std::ranges::max(run.resources->page_faults));
}

/// A column for each part of a replica's memory, and one for page faults. Below each row, what was predicted.
Table memory_table(const std::vector<const Run*>& rows) {
  std::vector<RunColumn> columns;
  const bool whole =
      std::ranges::any_of(rows, [](const Run* run) { return run->predicted_memory.has_value(); });
  for (size_t i = 0; i < (whole ? kMemoryParts.size() : kAlwaysMeasured); ++i) {
    const auto [name, range] = kMemoryParts[i];
    columns.push_back({name, [range](const Run& run) { return range_text((*run.memory).*range); }});
  }
  columns.push_back({"page faults", page_faults_text});
  columns.back().column.expendable = true;
  Table table = run_table(rows, columns);
  for (size_t i = rows.size(); i-- > 0;) {
    if (!rows[i]->predicted_memory) continue;
    std::vector<Cell> predicted(table.columns.size(), Cell(""));
    predicted[1] = "  predicted";
    for (size_t part = 0; part < kMemoryParts.size(); ++part)
      predicted[2 + part] = range_text((*rows[i]->predicted_memory).*kMemoryParts[part].range);
    table.rows.insert(table.rows.begin() + static_cast<std::ptrdiff_t>(i) + 1, std::move(predicted));
  }
  return table;
}

/// "negotiation" and "0.375 ms" for negotiation_s.
std::pair<std::string, std::string> words_and_value(const OwnMeasure& measure) {
  std::string words = measure.name;
  const bool seconds = words.ends_with("_s");
  if (seconds) words.resize(words.size() - 2);
  std::ranges::replace(words, '_', ' ');
  if (seconds) return {words, fmt::format("{:.3f} ms", 1000 * measure.value)};
  if (words.ends_with(" bytes"))
    return {words.substr(0, words.size() - 6), format_bytes(std::llround(measure.value))};
  const bool whole = measure.over == "in all" || measure.over == "most";
  return {words, whole ? fmt::format("{:.0f}", measure.value) : fmt::format("{:.2f}", measure.value)};
}

/// Bytes that a rank hands to its communicator.
constexpr const char* kPayload = "payload_bytes";

/// A row for each measure; the first one of a run names the run.
Table measures_table(const std::vector<const Run*>& rows) {
  Table table{.columns = {"ranks", {"strategy", kText}, {"measured", kText}, "value", {"", kText}}};
  for (const Run* run : rows) {
    for (const OwnMeasure& measure : run->own_measures) {
      const bool first = &measure == &run->own_measures.front();
      const auto [words, value] = words_and_value(measure);
      table.add_row({first ? fmt::format("{}", run->ranks) : "", first ? strategy_text(*run) : "", words,
                     value, measure.over});
      if (measure.name != kPayload || !run->batch_is_known()) continue;
      const OwnMeasure of_image{measure.name, measure.value / run->images_per_rank_step(), ""};
      table.add_row({"", "", words, words_and_value(of_image).second, "per " + run->unit});
    }
  }
  return table;
}

/// " (x 1.08 against 25 [1.05, 1.11])"; empty if the default was the fastest.
std::string gain_text(const BucketTuning& tuning) {
  if (!tuning.speedup) return "";
  const std::string interval =
      tuning.speedup_low && tuning.speedup_high
          ? fmt::format(" [{:.2f}, {:.2f}]", *tuning.speedup_low, *tuning.speedup_high)
          : "";
  return fmt::format(" (x {:.2f} against {:g}{})", *tuning.speedup, tuning.default_mb, interval);
}

/// The choice, and how to repeat it without another search.
std::string tuning_verdict(const BucketTuning& tuning) {
  if (tuning.chosen_mb == tuning.default_mb) {
    return fmt::format("--bucket-mb {:g} stays: {}{}", tuning.chosen_mb, tuning.reason, gain_text(tuning));
  }
  return fmt::format("--bucket-mb {:g}{}; use it next time with --bucket-mb {:g}", tuning.chosen_mb,
                     gain_text(tuning), tuning.chosen_mb);
}

/// A line of epochs; head and lines have the same widths, because they are printed as they come.
std::string epochs_text(const std::array<std::string, 8>& cells, bool evaluated) {
  constexpr std::array kWidths{5, 10, 12, 11, 12, 11, 12, 13};
  std::string text;
  for (size_t i = 0; i < cells.size(); ++i) {
    const bool of_evaluation = i == 5 || i == 6;
    if (evaluated || !of_evaluation) text += fmt::format("{:>{}}", cells[i], kWidths[i]);
  }
  return text + '\n';
}

/// Extremes of all GPUs of a row, around the median of their medians.
std::optional<Spread> over_gpus(const std::vector<GpuUse>& gpus, std::optional<Spread> GpuUse::*member) {
  std::optional<Spread> all;
  std::vector<double> medians;
  for (const GpuUse& gpu : gpus) {
    const std::optional<Spread>& own = gpu.*member;
    if (!own) continue;
    medians.push_back(own->median);
    if (!all) all = own;
    all->least = std::min(all->least, own->least);
    all->most = std::max(all->most, own->most);
  }
  if (all) {
    std::ranges::sort(medians);
    all->median = medians[(medians.size() - 1) / 2];
  }
  return all;
}

/// Smallest of a limit that GPUs of one kind have in common.
std::optional<double> least_limit(const std::vector<GpuUse>& gpus, std::optional<double> GpuUse::*member) {
  std::optional<double> least;
  for (const GpuUse& gpu : gpus) {
    if (gpu.*member && (!least || *(gpu.*member) < *least)) least = gpu.*member;
  }
  return least;
}

/// "1755 (1410 to 1980) of 1980".
std::string spread_text(const std::optional<Spread>& spread, const std::optional<double>& limit) {
  if (!spread) return kNoValue;
  std::string text = fmt::format("{:.0f}", spread->median);
  const std::string least = fmt::format("{:.0f}", spread->least);
  const std::string most = fmt::format("{:.0f}", spread->most);
  if (least != most) text += fmt::format(" ({} to {})", least, most);
  if (limit) text += fmt::format(" of {:.0f}", *limit);
  return text;
}

/// "690 of 700".
std::string power_text(const std::vector<GpuUse>& gpus) {
  const std::optional<Spread> power = over_gpus(gpus, &GpuUse::power_w);
  if (!power) return kNoValue;
  return spread_text(Spread{power->median, power->median, power->median},
                     least_limit(gpus, &GpuUse::power_limit_w));
}

/// "139.8".
std::string gib_text(double bytes) {
  return fmt::format("{:.1f}", bytes / static_cast<double>(kGiB));
}

/// "41.2 of 139.8": the most GiB of tensors that any rank held.
std::string tensors_text(const Run& run) {
  if (!run.resources || run.resources->peak_device_memory_bytes.empty()) return kNoValue;
  const int64_t most = std::ranges::max(run.resources->peak_device_memory_bytes);
  const std::optional<double> of = least_limit(run.gpu_use, &GpuUse::memory_bytes);
  return gib_text(static_cast<double>(most)) + (of ? " of " + gib_text(*of) : "");
}

/// Share of samples with reduced clocks, on the GPU with the largest share.
std::string most_slowed(const std::vector<GpuUse>& gpus) {
  if (std::ranges::all_of(gpus, [](const GpuUse& gpu) { return gpu.samples == 0; })) return kNoValue;
  const double most = std::ranges::max(gpus, {}, &GpuUse::slowed_share).slowed_share;
  return most > 0 ? fmt::format("{:.0f} %", 100 * most) : "no";
}

Table gpu_table(const std::vector<const Run*>& rows) {
  // Makes the cell of a spread beside the limit that the GPUs have in common.
  const auto limited = [](std::optional<Spread> GpuUse::*spread, std::optional<double> GpuUse::*limit) {
    return [=](const Run& run) {
      return spread_text(over_gpus(run.gpu_use, spread), least_limit(run.gpu_use, limit));
    };
  };
  return run_table(rows, {{"SM clock MHz", limited(&GpuUse::sm_clock_mhz, &GpuUse::max_sm_clock_mhz)},
                          {"°C",
                           [](const Run& run) {
                             const std::optional<Spread> temperature =
                                 over_gpus(run.gpu_use, &GpuUse::temperature_c);
                             return temperature ? fixed_text(temperature->most, 0) : kNoValue;
                           }},
                          {"power W", [](const Run& run) { return power_text(run.gpu_use); }},
                          {"busy",
                           [](const Run& run) {
                             const std::optional<Spread> busy = over_gpus(run.gpu_use, &GpuUse::kernel_share);
                             return busy ? fmt::format("{:.0f} %", 100 * busy->median) : kNoValue;
                           }},
                          {"tensors GiB", tensors_text},
                          {"slowed", [](const Run& run) { return most_slowed(run.gpu_use); }}});
}

/// "3 of 59 (2.14 ms)": how often, and the mean wait.
std::string waits_text(int64_t waits, double seconds, const std::string& of) {
  if (waits == 0) return "never";
  return fmt::format("{}{} ({} ms)", waits, of,
                     format_number(1000 * seconds / static_cast<double>(waits), 3));
}

/// A row for each queue; the first one of a run names the run.
Table input_table(const std::vector<const Run*>& rows) {
  Table table{.columns = {"ranks",
                          {"strategy", kText},
                          {"queue", kText},
                          "depth",
                          "empty",
                          "full",
                          "ms/batch",
                          rows.front()->unit == "image" ? "images/s" : "samples/s",
                          "GB/s"}};
  for (const size_t back : {1, 2}) table.columns[table.columns.size() - back].expendable = true;
  for (const Run* run : rows) {
    for (const InputQueue& queue : run->input_queues) {
      // Later queues of a run leave the name of the run empty, so that runs stand apart.
      const bool first = &queue == &run->input_queues.front();
      table.add_row({first ? fmt::format("{}", run->ranks) : "", first ? strategy_text(*run) : "", queue.name,
                     fmt::format("{:.1f} of {}", queue.depth, queue.capacity),
                     waits_text(queue.empty, queue.empty_s, fmt::format(" of {}", queue.batches)),
                     waits_text(queue.full, queue.full_s, ""),
                     queue.producer_s ? format_number(1000 * *queue.producer_s, 3) : kNoValue,
                     format_number(queue.images_per_s, 4), format_number(queue.gb_per_s, 3)});
    }
  }
  return table;
}

}  // namespace

Table phases_table(const std::vector<const Run*>& rows, const std::vector<RunColumn>& names) {
  std::vector<RunColumn> columns;
  const int digits = milliseconds_digits(rows);
  const auto add = [&](const Phase& phase) {
    columns.push_back({phase.name, [seconds = phase.seconds, digits](const Run& run) {
                         const PhaseTimes& mean = run.breakdown->mean;
                         // A cell with a share that is no number shows "-" in place of it.
                         constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
                         return Cell(fixed_text(1000 * (mean.*seconds), digits),
                                     mean.step_s > 0 ? mean.*seconds / mean.step_s : kNone);
                       }});
    columns.back().column.expendable = std::ranges::all_of(rows, [&](const Run* run) {
      return run->breakdown->mean.*phase.seconds < kSmallPhase * run->breakdown->mean.step_s;
    });
  };
  add({"step", &PhaseTimes::step_s});
  std::ranges::for_each(kPhases, add);
  Table table = run_table(rows, columns, names);
  table.shares_below = true;
  return table;
}

std::vector<Remark> phases_remarks(bool recorded) {
  return {{"", std::string("Means over ranks and steps of ") +
                   (recorded ? "the profiler's window" : "a run of its own") +
                   ". waiting: for other ranks; transfer: the rest of "
                   "the communication that was not hidden."}};
}

Document phases_tables(const RunRecord& record) {
  // Publications do not measure phases as lockstep does.
  std::vector<Remark> remarks;
  if (record.source != kPublished) remarks = phases_remarks(record.source == kRecordedSource);
  if (std::ranges::any_of(record.runs,
                          [&](const Run& run) { return run.breakdown && no_core_is_spare(record, run); })) {
    remarks.push_back(
        {"",
         "No core is spare for the communicator's threads: what they copy and sum while backward goes on "
         "they take from it. Only waiting can be hidden then, and '--overlap off' may take as long."});
  }
  return grouped_tables(
      record, [](const Run& run) { return run.breakdown.has_value(); }, "Phases: {}, milliseconds per step",
      [](const std::vector<const Run*>& rows) { return phases_table(rows, ranks_and_strategy()); }, remarks);
}

Document buckets_tables(const RunRecord& record) {
  return grouped_tables(
      record,
      [](const Run& run) {
        return run.ranks > 1 && run.breakdown && !run.breakdown->ranks.empty() &&
               !run.breakdown->ranks.front().buckets.empty();
      },
      "Buckets: {}", buckets_table,
      {{"",
        "The first eight of each row. ms: from the last rank's arrival to the end, mean over ranks and "
        "steps. "
        "algbw: bytes over that time; busbw: algbw times 2(n-1)/n for all-reduce, (n-1)/n for reduce_scatter "
        "and all_gather, as in nccl-tests: comparable with the bandwidth of a link, whatever n."}});
}

bool has_factors(const Run& run) {
  return run.factors || hidden_text(run) != kNoValue;
}

Table factors_table(const std::vector<const Run*>& rows, const std::vector<RunColumn>& names) {
  std::vector<RunColumn> columns{
      {"efficiency", [](const Run& run) {
         return run.efficiency ? Cell(marked(run, fixed_text(100 * *run.efficiency, 1)), run.efficiency)
                               : kNoValue;
       }}};
  // Without the control or the breakdown there are no factors: leave out four columns of "-".
  if (std::ranges::any_of(rows, [](const Run* run) { return run->factors.has_value(); })) {
    for (const Factor& factor : kFactors) {
      columns.push_back({factor.head, [factor](const Run& run) -> Cell {
                           if (!run.factors) return kNoValue;
                           const double value = (*run.factors).*factor.value;
                           const auto& half_width = run.factors->half_width.*factor.half_width;
                           const std::string text = factor_text(value, half_width);
                           return is_impossible_factor(value, half_width) ? text + " ?" : marked(run, text);
                         }});
    }
  }
  columns.push_back({"hidden", hidden_text});
  columns.back().column.expendable = true;
  if (std::ranges::any_of(rows, [](const Run* run) { return straggler_text(*run) != kNoValue; }))
    columns.push_back({{"straggler", kText}, straggler_text});
  columns.back().column.expendable = true;
  return run_table(rows, columns, names);
}

std::vector<Remark> factors_remarks() {
  return {{"",
           "machine: shared memory, caches and power; strategy: its own copies and hooks; transfer: "
           "communication that was not hidden; stragglers: waiting for the slowest rank. hidden: the share "
           "of communication behind other work."}};
}

Document factors_tables(const RunRecord& record) {
  return grouped_tables(
      record, has_factors, "Efficiency and its factors: {}, per cent",
      [](const std::vector<const Run*>& rows) { return factors_table(rows, ranks_and_strategy()); },
      factors_remarks());
}

Document timeline(const RunRecord& record) {
  const auto has_buckets = [](const Run& run) {
    return run.ranks > 1 && run.breakdown && run.breakdown->mean.step_s > 0 &&
           !run.breakdown->ranks.empty() && !run.breakdown->ranks.front().buckets.empty();
  };
  const auto found = std::ranges::find_if(record.runs, has_buckets);
  if (std::ranges::count_if(record.runs, has_buckets) != 1) return {};
  const Breakdown& breakdown = *found->breakdown;
  const double step_s = breakdown.mean.step_s;
  std::string text;
  const std::vector<size_t> shown = shown_ranks(*found);
  for (const size_t place : shown) {
    text +=
        line_of(fmt::format("rank {}", found->rank_at(place)), phases_line(breakdown.ranks[place], step_s));
    text += line_of("", buckets_line(breakdown.ranks[place], step_s));
  }
  const std::string middle = time_text(step_s / 2), end = time_text(step_s);
  text += fmt::format("{:{}}0{:>{}}{:>{}}\n", "", kLead, middle, kColumns / 2 - 1, end, kColumns / 2);
  Document document;
  // A recorded script may be called as its strategy.
  const std::string name =
      found->model == found->strategy ? found->model : found->model + ", " + found->strategy;
  document.add(Heading{fmt::format("A mean step: {} at {}", name, counted(found->ranks, "rank"))});
  document.add(Preformatted{std::move(text)});
  document.add(
      Remark{"",
             "i: input, f: forward, b: backward, w: waiting for other ranks, t: transfer, o: "
             "optimizer. Below, each bucket: - until the last rank has it, its number until all do."});
  if (shown.size() < breakdown.ranks.size())
    document.add(Remark{"", fmt::format("{} of {} ranks are drawn.", shown.size(), breakdown.ranks.size())});
  return document;
}

Document memory_tables(const RunRecord& record) {
  const bool whole =
      std::ranges::any_of(record.runs, [](const Run& run) { return run.predicted_memory.has_value(); });
  const std::string kept =
      whole ? "together: what a replica keeps from step to step. In a step come on top: units that "
              "are gathered or not yet reduced, where ranks keep shards, and activations with all "
              "else. "
            : "What a replica keeps from step to step; activations and input come on top. ";
  return grouped_tables(record,
                        [](const Run& run) { return run.memory && (run.breakdown || run.predicted_memory); },
                        "Memory per rank: {}", memory_table,
                        {{"", kept + "page faults: of the rank with the most, while the row ran; many per "
                                     "step mean that the allocator "
                                     "returns memory which the next step asks for again."}});
}

Document measures_tables(const RunRecord& record) {
  return grouped_tables(record, [](const Run& run) { return !run.own_measures.empty(); },
                        "Measured by the strategies themselves: {}", measures_table,
                        {{"", "Over all steps, warm-up included; per step: mean over ranks and steps."}});
}

Document tuning_remarks(const RunRecord& record) {
  Document document;
  for (const Run& run : record.runs) {
    if (!run.tuning) continue;
    std::string words = fmt::format("{} {} at {} ranks: {}.", run.model, run.strategy, run.ranks,
                                    tuning_verdict(*run.tuning));
    std::vector<std::string> tried;
    for (const BucketCandidate& candidate : run.tuning->candidates) {
      tried.push_back(fmt::format("{}: {}", candidate.bucket_mb, format_number(1000 * candidate.step_s, 4)));
    }
    if (!tried.empty()) words += fmt::format(" Tried, MiB and ms per step: {}.", fmt::join(tried, ", "));
    document.add(Remark{"Tuned: ", words, document.empty()});
  }
  return document;
}

Document replica_checks_remark(const RunRecord& record) {
  std::vector<std::string> compared, left_out;
  int every = 0;
  for (const Run& run : record.runs) {
    if (!run.replica_checks) continue;
    const ReplicaChecks& checks = *run.replica_checks;
    every = checks.every;
    if (checks.not_applicable.empty()) {
      compared.push_back(
          fmt::format("{} {} at {} ranks ({} times)", run.model, run.strategy, run.ranks, checks.checks));
      continue;
    }
    const std::string reason = fmt::format("{} ({})", run.strategy, checks.not_applicable);
    if (std::ranges::find(left_out, reason) == left_out.end()) left_out.push_back(reason);
  }
  if (compared.empty() && left_out.empty()) return {};
  std::string text = fmt::format("compared bit for bit every {} steps, and equal: {}.", every,
                                 compared.empty() ? "none" : fmt::format("{}", fmt::join(compared, ", ")));
  if (!left_out.empty()) text += fmt::format(" Not compared: {}.", fmt::join(left_out, ", "));
  return Remark{"Replicas: ", text, true};
}

std::string epochs_head(bool evaluated, const std::string& unit) {
  return epochs_text({"epoch", "steps", "rate", "loss", "accuracy", "eval loss", "eval acc.", unit + "s/s"},
                     evaluated);
}

std::string epoch_line(const EpochRecord& epoch, bool evaluated) {
  return epochs_text(
      {std::to_string(epoch.epoch), std::to_string(epoch.steps), format_number(epoch.learning_rate, 4, 1e-7),
       std::isnan(epoch.loss) ? "nan" : fmt::format("{:.4f}", epoch.loss),
       percent_text(epoch.training_accuracy, 2), fixed_text(epoch.evaluation_loss, 4),
       percent_text(epoch.evaluation_accuracy, 2), fixed_text(epoch.images_per_s, 1)},
      evaluated);
}

Document epochs_table(const TrainingRecord& training) {
  const bool evaluated = std::ranges::any_of(
      training.epochs, [](const EpochRecord& epoch) { return epoch.evaluation_loss.has_value(); });
  std::string text = epochs_head(evaluated, training.unit);
  for (const EpochRecord& epoch : training.epochs) text += epoch_line(epoch, evaluated);
  return Preformatted{text};
}

Document gpu_tables(const RunRecord& record) {
  return grouped_tables(
      record, [](const Run& run) { return !run.gpu_use.empty(); }, "GPUs: {}", gpu_table,
      {{"",
        "What the driver told about ten times a second while the steps were measured, of the GPUs of all "
        "ranks: the median (lowest to highest) of what is possible; the highest temperature. busy: share of "
        "time in which a kernel ran. tensors: the most at a time, of all memory. slowed: in how many samples "
        "something kept the clocks down, on the GPU with the most of them."}});
}

Document input_tables(const RunRecord& record) {
  return grouped_tables(
      record, [](const Run& run) { return !run.input_queues.empty(); }, "Input {1}: {0}", input_table,
      {{"",
        "depth: batches ready when one was wanted, mean. empty: how often none was, and the mean wait; of "
        "'staged' that is the step's. full: how often a producer found no room. ms/batch: a producer's work. "
        "Over all steps, warm-up included."}});
}

}  // namespace lockstep::results
