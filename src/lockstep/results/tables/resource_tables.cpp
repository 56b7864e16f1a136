#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/results/tables/tables.h"

namespace lockstep::results {
namespace {

using topology::GpuUse;
using topology::Spread;

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
