#include "lockstep/results/files/record_json.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/field_list.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json_codec.h"
#include "lockstep/base/number_range.h"
#include "lockstep/base/plain_text.h"
#include "lockstep/results/files/system_json.h"
#include "lockstep/results/record/baseline.h"
#include "lockstep/results/record/launches.h"

namespace lockstep::results {
namespace {

/// 25 and not 25.0, as PyTorch's benchmark writes it; its diff.py shows the text of the number.
Json whole_if_possible(double value) {
  const bool whole = std::trunc(value) == value && std::abs(value) < 1e15;
  return whole ? Json(static_cast<int64_t>(value)) : Json(value);
}

/// The rows that PyTorch's diff.py compares: for each model and batch the row without a strategy, then the
/// first strategy of the sweep by ascending ranks, with the first backend, precision, kernels and bucket
/// size.
struct PytorchRows {
  std::string model;
  int batch_size = 0;
  /// Null where it is missing (an incomplete record).
  const Run* no_ddp = nullptr;
  std::vector<const Run*> ddp;
};

/// The first run of the first strategy of the sweep. Null when only controls were measured.
const Run* first_of_sweep(const RunRecord& record) {
  const Run* first = nullptr;
  for (const Run& run : record.runs) {
    if (is_control(record, run) || !run.finished()) continue;
    if (!record.strategies.empty() && run.strategy == record.strategies.front()) return &run;
    if (first == nullptr) first = &run;
  }
  return first;
}

/// Pointers into `record`, in the order of its runs.
std::vector<PytorchRows> pytorch_rows(const RunRecord& record) {
  const Run* first = first_of_sweep(record);
  std::vector<PytorchRows> all;
  for (const Run& run : record.runs) {
    if (!run.finished()) continue;
    auto rows = std::ranges::find_if(all, [&](const PytorchRows& known) {
      return known.model == run.model && known.batch_size == run.batch_per_rank;
    });
    if (rows == all.end()) rows = all.insert(all.end(), {run.model, run.batch_per_rank, nullptr, {}});
    if (run.role() == Role::kBaseline) {
      if (rows->no_ddp == nullptr) rows->no_ddp = &run;
      continue;
    }
    if (first == nullptr || run.strategy != first->strategy || run.backend != first->backend ||
        run.precision != first->precision || run.kernels != first->kernels ||
        run.bucket_mb != first->bucket_mb) {
      continue;
    }
    if (rows->ddp.empty() || same_work(*rows->ddp.front(), run)) rows->ddp.push_back(&run);
  }
  for (PytorchRows& rows : all) {
    std::ranges::stable_sort(rows.ddp, {}, &Run::ranks);
    if (!rows.ddp.empty()) rows.no_ddp = single_of(record, *rows.ddp.front());
    // Under strong scaling the baseline has another batch.
    if (rows.no_ddp != nullptr && rows.no_ddp->batch_per_rank != rows.batch_size) rows.no_ddp = nullptr;
  }
  return all;
}

Json pytorch_result(const Run* run) {
  std::vector<int> ranks(run == nullptr ? 1 : static_cast<size_t>(run->ranks));
  std::iota(ranks.begin(), ranks.end(), 0);
  Json measurements = Json::array();
  if (run != nullptr) {
    for (const double step_s : representative_steps(*run)) {
      // diff.py takes percentiles of the list: a null in it would end it.
      if (std::isfinite(step_s)) measurements.push_back(step_s);
    }
  }
  return {{"ranks", std::move(ranks)}, {"measurements", std::move(measurements)}};
}

Json benchmark_results(const RunRecord& record) {
  Json all = Json::array();
  for (const PytorchRows& rows : pytorch_rows(record)) {
    // diff.py always skips the first result, so one without measurements holds its place.
    Json results = Json::array({pytorch_result(rows.no_ddp)});
    for (const Run* run : rows.ddp) {
      Json result = pytorch_result(run);
      if (!result["measurements"].empty()) results.push_back(std::move(result));
    }
    all.push_back({{"model", rows.model}, {"batch_size", rows.batch_size}, {"result", std::move(results)}});
  }
  return all;
}

/// Steps of each launch must add up to `steps`.
void check_launch_steps(const JsonNode& node, const std::vector<int>& launches, size_t steps) {
  const int64_t sum = std::accumulate(launches.begin(), launches.end(), int64_t{0});
  if (!launches.empty() && sum != static_cast<int64_t>(steps)) {
    node.refuse(fmt::format("counts that add up to the {} steps of the samples", steps));
  }
}

/// samples[step] must have a number for each of `width` ranks.
void check_samples(const JsonNode& node, const std::vector<std::vector<double>>& samples, size_t width) {
  const auto wrong = std::ranges::find_if(samples, [&](const auto& step) { return step.size() != width; });
  if (wrong == samples.end()) return;
  node.elements()[static_cast<size_t>(wrong - samples.begin())].refuse(
      fmt::format("one number per rank, {}", width));
}

/// The number of ranks with samples. An unfinished run may have samples of its first host only.
size_t sampled_ranks(const Run& run) {
  const size_t width = run.pooled ? 1 : static_cast<size_t>(run.measured_ranks());
  const auto& samples = run.samples.empty() ? run.warmup_samples : run.samples;
  if (run.finished() || samples.empty()) return width;
  return std::clamp<size_t>(samples.front().size(), 1, width);
}

/// Throws for findings that contradict the number of ranks or of steps.
void check_run(const JsonNode& node, const Run& run) {
  if (run.recorded &&
      (run.recorded->ranks.empty() || run.recorded->ranks.size() > static_cast<size_t>(run.ranks)))
    node["recorded"]["ranks"].refuse(fmt::format("1 to {} ranks", run.ranks));
  const size_t width = sampled_ranks(run);
  check_samples(node["samples"], run.samples, width);
  if (!run.warmup_samples.empty()) check_samples(node["warmup_samples"], run.warmup_samples, width);
  check_launch_steps(node["launch_steps"], run.launch_steps, run.samples.size());
  check_launch_steps(node["launch_warmup_steps"], run.launch_warmup_steps, run.warmup_samples.size());
  if (!run.breakdown) return;
  const JsonNode breakdown = node["breakdown"];
  const bool means_alone = run.pooled && run.breakdown->ranks.empty();
  if (!means_alone && run.breakdown->ranks.size() != static_cast<size_t>(run.measured_ranks())) {
    breakdown["ranks"].refuse(fmt::format("one entry per rank, {}", run.measured_ranks()));
  }
  if (run.breakdown->straggler) breakdown["straggler"].whole(0, run.ranks - 1);
}

void read_ours(RunRecord& record, const JsonNode& node) {
  record.schema_version = node["schema_version"].version(kSchemaVersion);
  decode(node, record);
  const std::vector<JsonNode> runs = node["runs"].elements();
  for (size_t i = 0; i < runs.size(); ++i) {
    Run& run = record.runs[i];
    check_run(runs[i], run);
    // null stands for a measure that is not finite.
    std::erase_if(run.own_measures, [](const OwnMeasure& measure) { return std::isnan(measure.value); });
  }
  assign_speedup_intervals(record);
  assign_doubts(record);
}

/// A result of PyTorch's benchmark: `measurements` holds the samples of all ranks, one rank after the other.
Run read_pytorch_run(const JsonNode& result, const RunRecord& record, bool no_ddp) {
  Run run{unknown_setup()};
  run.strategy = no_ddp ? kSingle : "ddp";
  run.backend = no_ddp ? "" : record.distributed_backend;
  run.device = record.cuda_version.empty() ? "cpu" : "cuda";
  run.memory_format = "contiguous";
  run.hosts = 1;
  run.bucket_mb = no_ddp ? 0 : record.bucket_size_mb;
  run.pooled = true;
  run.ranks = static_cast<int>(result["ranks"].elements().size());
  if (run.ranks < 1) result["ranks"].refuse("at least one rank");
  run.loss_first = run.loss_last = std::numeric_limits<double>::quiet_NaN();
  for (const double sample : result["measurements"].numbers()) run.samples.push_back({sample});
  return run;
}

void read_pytorch(RunRecord& record, const JsonNode& root) {
  record.source = "pytorch";
  for (const JsonNode& benchmark : root["benchmark_results"].elements()) {
    const std::string model = benchmark["model"].text();
    const int batch = benchmark["batch_size"].count(1);
    bool no_ddp = true;
    for (const JsonNode& result : benchmark["result"].elements()) {
      Run run = read_pytorch_run(result, record, no_ddp);
      no_ddp = false;
      if (run.samples.empty()) continue;
      run.model = model;
      run.batch_per_rank = batch;
      std::vector<double> pooled;
      for (const auto& sample : run.samples) pooled.push_back(sample[0]);
      run.step_s = measure::step_percentiles(pooled);
      const double mean_s =
          std::accumulate(pooled.begin(), pooled.end(), 0.0) / static_cast<double>(pooled.size());
      run.images_per_s = mean_s > 0 ? run.ranks * static_cast<double>(batch) / mean_s : 0;
      record.runs.push_back(std::move(run));
    }
  }
  assign_baselines(record);
}

/// Raised when a key changes its meaning; new keys do not need it.
constexpr int kTrainingSchemaVersion = 1;
constexpr const char* kTrainingSchema = "lockstep training";

RunRecord read_training(const nlohmann::json& document, std::string_view name) {
  const JsonNode root(document, name);
  root["schema_version"].version(kTrainingSchemaVersion);
  TrainingRecord training;
  decode(root, training);
  if (const JsonNode settings = root["settings"]; !settings.missing()) {
    for (const auto& [key, value] : document["settings"].items())
      training.settings.emplace_back(plain_text(key), settings[key].text());
  }
  RunRecord record;
  record.lockstep_version = training.lockstep_version;
  record.torch_version = training.torch_version;
  record.distributed_backend = training.backend;
  record.command = training.command;
  record.incomplete = training.incomplete;
  record.training = std::move(training);
  return record;
}

/// Whether it is a trace of events, or packed as traces are.
bool is_trace(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  return text.starts_with("\x1f\x8b") || text.starts_with("PK\x03\x04") ||
         (begin != std::string_view::npos && text[begin] == '[') ||
         text.find("\"traceEvents\"") != std::string_view::npos;
}

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

std::string to_json(const RunRecord& record) {
  return json_text({
      {"pytorch_version", record.torch_version},
      {"cuda_version", record.cuda_version.empty() ? Json(nullptr) : Json(record.cuda_version)},
      {"distributed_backend", record.distributed_backend},
      {"bucket_size", whole_if_possible(record.bucket_size_mb)},
      {"benchmark_results", benchmark_results(record)},
      {"lockstep", encode_after({{"schema_version", kSchemaVersion}}, record)},
  });
}

std::string json_reference() {
  return "Below \"lockstep\" in what lockstep bench --json writes, and in the file of lockstep topo "
         "--json.\n" +
         key_reference<RunRecord>("lockstep") + key_reference<System>("");
}

RunRecord from_json(std::string_view text, std::string_view name) {
  if (is_trace(text)) {
    throw Error(
        fmt::format("'{}' is no result of lockstep bench: it looks like a trace of events, or a packed one",
                    name),
        "`lockstep import` makes a result of traces of PyTorch's profiler.");
  }
  const nlohmann::json document = parse_json(text, name);
  const JsonNode root(document, name);
  if (document.is_object() && root["schema"].text_or("") == kTrainingSchema)
    return read_training(document, name);
  if (!document.is_object() || root["benchmark_results"].missing()) {
    throw Error(
        fmt::format("'{}' is JSON, but no result of lockstep bench or of PyTorch's DDP benchmark: it has no "
                    "'benchmark_results'",
                    name),
        "Give a file that lockstep bench or train wrote with --json.");
  }
  RunRecord record;
  record.torch_version = root["pytorch_version"].text_or("");
  record.cuda_version = root["cuda_version"].text_or("");
  record.distributed_backend = root["distributed_backend"].text_or("");
  record.bucket_size_mb = root["bucket_size"].number_or(25);
  if (const JsonNode ours = root["lockstep"]; !ours.missing()) {
    read_ours(record, ours);
  } else {
    read_pytorch(record, root);
  }
  return record;
}

RunRecord read_record(const std::filesystem::path& path) {
  const NamedText file = read_given(path);
  return from_json(file.text, file.name);
}

std::string to_json(const TrainingRecord& record) {
  return json_text(
      encode_after({{"schema", kTrainingSchema}, {"schema_version", kTrainingSchemaVersion}}, record));
}

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
