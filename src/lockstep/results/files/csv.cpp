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

using Row = std::vector<std::pair<std::string, std::string>>;

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

/// Beginnings of columns where they are not the names of the groups in JSON; "" for a group whose members
/// stand on their own.
constexpr std::pair<std::string_view, std::string_view> kGroups[] = {
    {"step_interval_s", "step_p50_s"},
    {"images_per_s_interval", "images_per_s"},
    {"speedup_interval", "speedup"},
    {"efficiency_interval", "efficiency"},
    {"factors", "factor"},
    {"phases", ""},
    {"resources", ""},
};

/// Adds a column for every number and text of a struct; a visitor of describe(). Members of structs inside
/// are columns too ("baseline_ranks"), empty where the struct is missing, so that the columns do not depend
/// on the row. Lists are left out, except that a list with a number per rank is its largest.
class CsvColumns {
 public:
  explicit CsvColumns(Row& row, std::string group = "", bool known = true)
      : row_(row), group_(std::move(group)), known_(known) {}

  template <typename T>
  void operator()(const char* key, const T& value, const FieldRule& rule = {}) {
    if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
      const bool empty = !known_ || (rule.nullable && value == T());
      row_.emplace_back(column(key, std::is_arithmetic_v<T>), empty ? "" : field(value));
    } else {
      group(key, [&](auto& members) { T::describe(members, value); });
    }
  }

  template <typename T>
  void operator()(const char* key, const std::optional<T>& value, const FieldRule& rule = {}) {
    CsvColumns(row_, group_, known_ && value)(key, value.value_or(T()), rule);
  }

  template <typename T>
  void operator()(const char* /*key*/, const std::vector<T>& /*list*/, const FieldRule& = {}) {}

  void operator()(const char* key, const std::vector<int64_t>& ranks, const PerRank& /*of*/) {
    (*this)(key, ranks.empty() ? 0 : std::ranges::max(ranks), kNullable);
  }

  template <typename T>
  void derived(const char* key, const T& value) {
    (*this)(key, value);
  }

  template <typename Body>
  void group(const char* key, Body&& body, const FieldRule& = {}) {
    const auto* other = std::ranges::find(kGroups, key, [](const auto& group) { return group.first; });
    const std::string name(other == std::end(kGroups) ? key : other->second);
    CsvColumns members(row_, name.empty() ? group_ : column(name, false), known_);
    body(members);
  }

 private:
  /// "step_s" and "p50" make "step_p50_s": the unit of a number stays at its end.
  std::string column(const std::string& key, bool number) const {
    if (group_.empty()) return key;
    if (key == "value") return group_;
    if (number && group_.ends_with("_s") && !group_.ends_with("_per_s"))
      return fmt::format("{}_{}_s", std::string_view(group_).substr(0, group_.size() - 2), key);
    return fmt::format("{}_{}", group_, key);
  }

  static std::string field(const std::string& value) { return value; }
  static std::string field(bool value) { return value ? "1" : "0"; }
  template <typename T>
  static std::string field(T value) {
    if constexpr (std::is_floating_point_v<T>) {
      if (!std::isfinite(value)) return "";
    }
    // The shortest text that reads back as the same number.
    return fmt::format("{}", value);
  }

  Row& row_;
  std::string group_;
  bool known_;
};

/// A quantity over the GPUs of a row whose drivers report it.
std::optional<double> over_gpus(const Run& run, std::optional<topology::Spread> topology::GpuUse::*quantity,
                                double topology::Spread::*of,
                                const double& (*choose)(const double& one, const double& other)) {
  std::optional<double> found;
  for (const topology::GpuUse& use : run.gpu_use) {
    if (!(use.*quantity)) continue;
    const double value = (*(use.*quantity)).*of;
    found = found ? choose(*found, value) : value;
  }
  return found;
}

/// All columns of a row in the order of the file.
Row row_of(const Run& run) {
  using topology::GpuUse;
  using topology::Spread;
  Row row;
  CsvColumns columns(row);
  Run::describe(columns, run);
  columns("steps", static_cast<int64_t>(run.samples.size()));
  columns("launches", launches(run));
  columns("gpu_sm_clock_mhz", over_gpus(run, &GpuUse::sm_clock_mhz, &Spread::median, std::min));
  columns("gpu_temperature_c", over_gpus(run, &GpuUse::temperature_c, &Spread::most, std::max));
  columns("gpu_power_w", over_gpus(run, &GpuUse::power_w, &Spread::median, std::max));
  columns("gpu_busy_share", over_gpus(run, &GpuUse::kernel_share, &Spread::median, std::min));
  std::optional<double> slowed;
  for (const GpuUse& use : run.gpu_use) slowed = std::max(slowed, std::optional(use.slowed_share));
  columns("gpu_slowed_share", slowed);
  return row;
}

}  // namespace

std::string to_csv(const RunRecord& record) {
  std::vector<std::string> fields;
  for (const auto& [name, ignored] : row_of(Run())) fields.push_back(name);
  std::string text = fmt::format("{}\n", fmt::join(fields, ","));
  for (const Run& run : record.runs) {
    fields.clear();
    for (const auto& [ignored, field] : row_of(run)) fields.push_back(quoted(field));
    text += fmt::format("{}\n", fmt::join(fields, ","));
  }
  return text;
}

}  // namespace lockstep::results
