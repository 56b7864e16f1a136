#include "lockstep/results/files/csv.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/number_range.h"
#include "lockstep/results/record/launches.h"

namespace lockstep::results {
namespace {

using Row = std::vector<std::pair<const char*, std::string>>;

/// Spreadsheets take a text that begins like this for a formula, and compute it.
bool is_formula(const std::string& field) {
  if (field.empty() || std::string_view("=+-@\t\r").find(field.front()) == std::string_view::npos)
    return false;
  return !parse_number(field, {.least = -std::numeric_limits<double>::infinity()});
}

/// Quotes a field that would end its field or line; inner quotes are doubled (RFC 4180). An apostrophe keeps
/// spreadsheets from computing a text.
std::string quoted(std::string field) {
  if (is_formula(field)) field.insert(0, "'");
  if (field.find_first_of(",\"\r\n") == std::string::npos) return field;
  std::string text = "\"";
  for (const char c : field) {
    if (c == '"') text += '"';
    text += c;
  }
  return text + '"';
}

/// The shortest text that reads back as the same number.
std::string csv_number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? fmt::format("{}", *value) : "";
}

/// 0 stands for a number that is not known.
std::string csv_known(int64_t value) {
  return value == 0 ? "" : fmt::format("{}", value);
}

/// An end of the interval; empty where none was computed.
std::optional<double> end_of(const std::optional<Interval>& interval, double Interval::*end) {
  return interval && interval->missing.empty() ? std::optional((*interval).*end) : std::nullopt;
}

template <typename T, typename Member>
std::optional<double> of(const std::optional<T>& found, Member T::*member) {
  return found ? std::optional<double>((*found).*member) : std::nullopt;
}

std::optional<double> phase(const Run& run, double PhaseTimes::*member) {
  return run.breakdown ? std::optional(run.breakdown->mean.*member) : std::nullopt;
}

/// Over the GPUs of a row that tell it.
std::optional<double> over_gpus(const Run& run, std::optional<topology::Spread> topology::GpuUse::*member,
                                double topology::Spread::*of,
                                const double& (*choose)(const double& one, const double& other)) {
  std::optional<double> found;
  for (const topology::GpuUse& use : run.gpu_use) {
    if (!(use.*member)) continue;
    const double value = (*(use.*member)).*of;
    found = found ? choose(*found, value) : value;
  }
  return found;
}

/// The largest share of samples in which a GPU of the row was slowed down.
std::optional<double> most_slowed(const Run& run) {
  if (run.gpu_use.empty()) return std::nullopt;
  return std::ranges::max(run.gpu_use, {}, &topology::GpuUse::slowed_share).slowed_share;
}

/// Adds the members of a struct under their own names; a visitor of describe(). Of a list of the ranks it
/// adds the largest number.
class CsvFields {
 public:
  explicit CsvFields(Row& row) : row_(row) {}

  template <typename T>
  void operator()(const char* key, const T& value, const FieldRule& rule = {}) {
    if (rule.in_csv) row_.emplace_back(key, field(value, rule));
  }

 private:
  template <typename T>
  static std::string field(const T& value, const FieldRule& rule) {
    if (rule.nullable && value == T()) return "";
    if constexpr (std::is_same_v<T, bool>) return value ? "1" : "0";
    return fmt::format("{}", value);
  }
  static std::string field(double value, const FieldRule&) { return csv_number(value); }
  static std::string field(const std::optional<double>& value, const FieldRule&) { return csv_number(value); }
  static std::string field(const std::vector<int64_t>& ranks, const FieldRule&) {
    return ranks.empty() ? "" : csv_known(std::ranges::max(ranks));
  }

  Row& row_;
};

/// All columns of a row in the order of the file. The columns do not depend on the row.
Row row_of(const Run& run) {
  using topology::GpuUse;
  using topology::Spread;
  Row row;
  CsvFields fields(row);
  Setup::describe(fields, run);
  const Row rates{
      {"warmup_steps", fmt::format("{}", run.warmup_steps)},
      {"steps", fmt::format("{}", run.samples.size())},
      {"launches", fmt::format("{}", launches(run))},
      {"elapsed_s", csv_number(run.elapsed_s)},
      {"step_p50_s", csv_number(run.step_s.p50)},
      {"step_p75_s", csv_number(run.step_s.p75)},
      {"step_p90_s", csv_number(run.step_s.p90)},
      {"step_p95_s", csv_number(run.step_s.p95)},
      {"step_p99_s", csv_number(run.step_s.p99)},
      {"step_p50_low_s", csv_number(end_of(run.step_interval_s, &Interval::low))},
      {"step_p50_high_s", csv_number(end_of(run.step_interval_s, &Interval::high))},
      {"images_per_s", csv_number(run.images_per_s)},
      {"images_per_s_low", csv_number(end_of(run.rate_interval, &Interval::low))},
      {"images_per_s_high", csv_number(end_of(run.rate_interval, &Interval::high))},
      {"speedup", csv_number(run.speedup)},
      {"efficiency", csv_number(run.efficiency)},
      {"speedup_low", csv_number(end_of(run.speedup_interval, &Interval::low))},
      {"speedup_high", csv_number(end_of(run.speedup_interval, &Interval::high))},
      {"efficiency_low", csv_number(end_of(run.efficiency_interval(), &Interval::low))},
      {"efficiency_high", csv_number(end_of(run.efficiency_interval(), &Interval::high))},
      {"baseline_strategy", run.baseline ? run.baseline->strategy : ""},
      {"baseline_ranks", run.baseline ? fmt::format("{}", run.baseline->ranks) : ""},
      {"baseline_images_per_s", run.baseline ? csv_number(run.baseline->images_per_s) : ""},
      {"limit_images_per_s", csv_number(run.limit_images_per_s)},
      {"of_limit", csv_number(run.of_limit())},
      {"factor_machine", csv_number(of(run.factors, &EfficiencyFactors::machine))},
      {"factor_strategy", csv_number(of(run.factors, &EfficiencyFactors::strategy))},
      {"factor_transfer", csv_number(of(run.factors, &EfficiencyFactors::transfer))},
      {"factor_stragglers", csv_number(of(run.factors, &EfficiencyFactors::stragglers))},
      {"input_s", csv_number(phase(run, &PhaseTimes::input_s))},
      {"forward_s", csv_number(phase(run, &PhaseTimes::forward_s))},
      {"backward_s", csv_number(phase(run, &PhaseTimes::backward_s))},
      {"waiting_s", csv_number(phase(run, &PhaseTimes::waiting_s))},
      {"transfer_s", csv_number(phase(run, &PhaseTimes::transfer_s))},
      {"optimizer_s", csv_number(phase(run, &PhaseTimes::optimizer_s))},
      {"other_s", csv_number(phase(run, &PhaseTimes::other_s))},
      {"breakdown_step_s", csv_number(phase(run, &PhaseTimes::step_s))},
  };
  row.insert(row.end(), rates.begin(), rates.end());
  const Resources resources = run.resources.value_or(Resources());
  Resources::describe(fields, resources);
  const Row gpus_and_losses{
      {"gpu_sm_clock_mhz", csv_number(over_gpus(run, &GpuUse::sm_clock_mhz, &Spread::median, std::min))},
      {"gpu_temperature_c", csv_number(over_gpus(run, &GpuUse::temperature_c, &Spread::most, std::max))},
      {"gpu_power_w", csv_number(over_gpus(run, &GpuUse::power_w, &Spread::median, std::max))},
      {"gpu_busy_share", csv_number(over_gpus(run, &GpuUse::kernel_share, &Spread::median, std::min))},
      {"gpu_slowed_share", csv_number(most_slowed(run))},
      {"loss_first", csv_number(run.loss_first)},
      {"loss_last", csv_number(run.loss_last)},
      {"unfinished", run.unfinished},
  };
  row.insert(row.end(), gpus_and_losses.begin(), gpus_and_losses.end());
  return row;
}

}  // namespace

std::string to_csv(const RunRecord& record) {
  std::vector<std::string> fields;
  for (const auto& [name, ignored] : row_of(Run())) fields.emplace_back(name);
  std::string text = fmt::format("{}\n", fmt::join(fields, ","));
  for (const Run& run : record.runs) {
    fields.clear();
    for (const auto& [ignored, field] : row_of(run)) fields.push_back(quoted(field));
    text += fmt::format("{}\n", fmt::join(fields, ","));
  }
  return text;
}

}  // namespace lockstep::results
