#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/results/tables/row_tables.h"
#include "lockstep/results/tables/styles.h"

namespace lockstep::results {
namespace {

using topology::GpuUse;
using topology::Spread;

constexpr const char* kNotTold = "-";

/// Over all GPUs of a row: the median of their medians between all that was sampled.
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

/// Of limits, which GPUs of one kind have in common.
std::optional<double> least_limit(const std::vector<GpuUse>& gpus, std::optional<double> GpuUse::*member) {
  std::optional<double> least;
  for (const GpuUse& gpu : gpus) {
    if (gpu.*member && (!least || *(gpu.*member) < *least)) least = gpu.*member;
  }
  return least;
}

/// "1755 (1410 to 1980) of 1980".
std::string spread_text(const std::optional<Spread>& spread, const std::optional<double>& limit) {
  if (!spread) return kNotTold;
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
  if (!power) return kNotTold;
  return spread_text(Spread{power->median, power->median, power->median},
                     least_limit(gpus, &GpuUse::power_limit_w));
}

std::string gib_text(double bytes) {
  return fmt::format("{:.1f}", bytes / static_cast<double>(kGiB));
}

/// "41.2 of 139.8": of tensors, on the rank that has the most.
std::string tensors_text(const Run& run) {
  if (!run.resources || run.resources->peak_device_memory_bytes.empty()) return kNotTold;
  const int64_t most = std::ranges::max(run.resources->peak_device_memory_bytes);
  const std::optional<double> of = least_limit(run.gpu_use, &GpuUse::memory_bytes);
  return gib_text(static_cast<double>(most)) + (of ? " of " + gib_text(*of) : "");
}

std::string most_slowed(const std::vector<GpuUse>& gpus) {
  if (std::ranges::all_of(gpus, [](const GpuUse& gpu) { return gpu.samples == 0; })) return kNotTold;
  const double most = std::ranges::max(gpus, {}, &GpuUse::slowed_share).slowed_share;
  return most > 0 ? fmt::format("{:.0f} %", 100 * most) : "no";
}

std::string gpu_table(const std::vector<const Run*>& rows, TextForm form) {
  TextTable table;
  table.add_column("ranks");
  table.add_column("strategy", TextTable::Align::kLeft);
  for (const char* name : {"SM clock MHz", "°C", "power W", "busy", "tensors GiB", "slowed"})
    table.add_column(name);
  for (const Run* run : rows) {
    const std::vector<GpuUse>& gpus = run->gpu_use;
    const std::optional<Spread> temperature = over_gpus(gpus, &GpuUse::temperature_c);
    const std::optional<Spread> busy = over_gpus(gpus, &GpuUse::kernel_share);
    table.add_row(
        {fmt::format("{}", run->ranks), strategy_text(*run),
         spread_text(over_gpus(gpus, &GpuUse::sm_clock_mhz), least_limit(gpus, &GpuUse::max_sm_clock_mhz)),
         temperature ? fmt::format("{:.0f}", temperature->most) : kNotTold, power_text(gpus),
         busy ? fmt::format("{:.0f} %", 100 * busy->median) : kNotTold, tensors_text(*run),
         most_slowed(gpus)});
  }
  return table.text(form);
}

}  // namespace

std::string gpu_tables(const RunRecord& record, TextForm form) {
  std::string text;
  for (RowTable& table : row_tables(record)) {
    std::erase_if(table.rows, [](const Run* run) { return run->gpu_use.empty(); });
    if (table.rows.empty()) continue;
    if (!text.empty()) text += '\n';
    text += heading("GPUs: " + table.title, form) + (form == TextForm::kTerminal ? "\n" : "") +
            gpu_table(table.rows, form);
  }
  if (text.empty()) return text;
  return text +
         remark(
             "",
             "What the driver told about ten times a second while the steps were measured, of the GPUs of "
             "all "
             "ranks: the median (lowest to highest) of what is possible; the highest temperature. busy: "
             "share "
             "of time in which a kernel ran. tensors: the most at a time, of all memory. slowed: in how many "
             "samples something kept the clocks down, on the GPU with the most of them.",
             form);
}

}  // namespace lockstep::results
