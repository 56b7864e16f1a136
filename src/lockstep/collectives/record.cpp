#include "lockstep/collectives/record.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/json_codec.h"
#include "lockstep/base/number_range.h"
#include "lockstep/base/units.h"
#include "lockstep/measure/series.h"

namespace lockstep::collectives {
namespace {

constexpr const char* kSchema = "lockstep collectives";
/// Raised when a key changes its meaning; new keys do not need it.
constexpr int kSchemaVersion = 1;
constexpr std::string_view kBeginning = "{\n  \"schema\": \"lockstep collectives\"";

constexpr NumberRange kSizes{.most = 64 * 1024, .above = true, .unit = Unit::kMebibytes};

int64_t parse_size(const std::string& text, const std::string& whole) {
  const std::optional<double> mebibytes = parse_number(text, kSizes);
  const double bytes = mebibytes.value_or(0) * static_cast<double>(kMiB);
  if (bytes >= 1) return std::llround(bytes);
  throw ConfigError(
      fmt::format("--sizes takes sizes from 1B to 64GiB (4KiB,25MiB), a range (8B..1GiB) or model:NAME, not "
                  "'{}'",
                  whole));
}

}  // namespace

std::string Row::series() const {
  std::string text = fmt::format("{} over {}, {}, {}", collective, backend, counted(ranks, "rank"), dtype);
  if (place == kOutOfPlace) text += ", out of place";
  if (at_a_time > 1) text += fmt::format(", {} at a time", at_a_time);
  return computing ? text + ", while computing" : text;
}

void summarize(Row& row) {
  if (!row.iteration_s.empty()) {
    const measure::StepPercentiles percentiles = measure::step_percentiles(row.iteration_s);
    row.median_s = *percentiles.p50;
    row.p90_s = percentiles.p90;
    row.p99_s = percentiles.p99;
  }
  row.algorithm_gb_per_s = static_cast<double>(row.bytes) * row.at_a_time / row.median_s / 1e9;
  row.bus_gb_per_s = row.algorithm_gb_per_s * bus_factor(operations().get(row.collective), row.ranks);
}

void summarize(Record& record) {
  for (Row& row : record.rows) {
    summarize(row);
    const auto link = std::ranges::find_if(
        record.links, [&](const Link& one) { return one.backend == row.backend && one.ranks == row.ranks; });
    if (link != record.links.end() && link->gb_per_s > 0) row.link_share = row.bus_gb_per_s / link->gb_per_s;
    if (!row.computing) continue;
    Row idle = row;
    idle.computing = false;
    const auto beside =
        std::ranges::find_if(record.rows, [&](const Row& other) { return other.same_work(idle); });
    if (beside != record.rows.end()) row.phi_n = row.median_s / beside->median_s - 1;
  }
}

std::string to_json(const Record& record) {
  return json_text(encode_after({{"schema", kSchema}, {"schema_version", kSchemaVersion}}, record));
}

bool is_record(std::string_view text) {
  return text.starts_with(kBeginning);
}

Record from_json(std::string_view text, std::string_view name) {
  const nlohmann::json document = parse_json(text, name, "Give a file of lockstep collectives --json FILE.");
  const JsonNode root(document, name);
  if (!document.is_object() || root["schema"].text_or("") != kSchema) {
    throw Error(fmt::format("'{}' is JSON, but no table of collectives", name),
                "Give a file of lockstep collectives --json FILE.");
  }
  root["schema_version"].version(kSchemaVersion);
  Record record;
  decode(root, record);
  if (record.rows.empty()) {
    throw Error(fmt::format("'{}' has no rows: {}", name,
                            record.incomplete.empty() ? "nothing was measured" : record.incomplete),
                "Measure some with lockstep collectives --json FILE.");
  }
  const std::vector<JsonNode> rows = root["rows"].elements();
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto is_time = [](double time_s) { return std::isfinite(time_s) && time_s > 0; };
    if (!is_time(record.rows[i].median_s)) rows[i]["median_s"].refuse("a time above 0 seconds");
    if (!std::ranges::all_of(record.rows[i].iteration_s, is_time))
      rows[i]["iteration_s"].refuse("times above 0 seconds");
  }
  return record;
}

const Registry<Operation>& operations() {
  using Kind = comm::Collective::Kind;
  static const Registry<Operation> all("collective", "lockstep collectives --help",
                                       {{"all_reduce", {Kind::kAllReduce, true, false, false, 2}},
                                        {"reduce_scatter", {Kind::kReduceScatter, true, true, true, 1}},
                                        {"all_gather", {Kind::kAllGather, true, true, true, 1}},
                                        {"broadcast", {Kind::kBroadcast, true, false, false, 0}},
                                        {"reduce", {Kind::kReduce, true, false, false, 0}},
                                        {"all_to_all", {Kind::kAllToAll, false, true, true, 1}},
                                        {"send_recv", {std::nullopt, false, true, false, 0}}});
  return all;
}

double bus_factor(const Operation& operation, int ranks) {
  return operation.shares == 0 ? 1 : operation.shares * (ranks - 1) / ranks;
}

comm::DType dtype_named(const std::string& name) {
  std::vector<std::string> known;
  for (uint8_t i = 0; i <= static_cast<uint8_t>(comm::DType::kInt64); ++i) {
    known.emplace_back(comm::to_string(comm::DType(i)));
    if (known.back() == name) return comm::DType(i);
  }
  throw ConfigError(fmt::format("--dtype takes {}, not '{}'", join_alternatives(known), name));
}

std::vector<int64_t> parse_sizes(const std::string& text) {
  const size_t dots = text.find("..");
  if (dots == std::string::npos) return {parse_size(text, text)};
  const int64_t last = parse_size(text.substr(dots + 2), text);
  std::vector<int64_t> sizes;
  for (int64_t size = parse_size(text.substr(0, dots), text); size <= last; size *= 2) sizes.push_back(size);
  if (!sizes.empty()) return sizes;
  throw ConfigError(fmt::format("--sizes {} ends below its beginning", text),
                    "Write the smaller size first.");
}

std::vector<int64_t> bucket_sizes(const std::vector<int64_t>& values, int64_t cap_bytes) {
  std::vector<int64_t> buckets;
  int64_t open = 0;
  for (auto value = values.rbegin(); value != values.rend(); ++value) {
    open += *value * static_cast<int64_t>(sizeof(float));
    if (open < (buckets.empty() ? kMiB : cap_bytes)) continue;
    buckets.push_back(open);
    open = 0;
  }
  if (open > 0) buckets.push_back(open);
  return buckets;
}

}  // namespace lockstep::collectives
