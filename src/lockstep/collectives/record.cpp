#include "lockstep/collectives/record.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/json_codec.h"
#include "lockstep/base/units.h"
#include "lockstep/collectives/operations.h"
#include "lockstep/measure/percentiles.h"

namespace lockstep::collectives {
namespace {

constexpr const char* kSchema = "lockstep collectives";
/// Raised when a key changes its meaning; new keys do not need it.
constexpr int kSchemaVersion = 1;
constexpr std::string_view kBeginning = "{\n  \"schema\": \"lockstep collectives\"";

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

}  // namespace lockstep::collectives
