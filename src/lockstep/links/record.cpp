#include "lockstep/links/record.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/json_codec.h"
#include "lockstep/links/findings.h"
#include "lockstep/measure/series.h"

namespace lockstep::links {
namespace {

constexpr const char* kSchema = "lockstep links";
/// Raised when a key changes its meaning; new keys do not need it.
constexpr int kSchemaVersion = 1;
constexpr std::string_view kBeginning = "{\n  \"schema\": \"lockstep links\"";
constexpr const char* kAdvice = "Give a file of lockstep topo --measure --json FILE.";

/// Throws unless every rank has a host, and every flow two ranks and times.
void check(const JsonNode& root, const Record& record) {
  const std::vector<JsonNode> ranks = root["ranks"].elements(), flows = root["flows"].elements();
  if (record.hosts.empty()) root["hosts"].refuse("a host");
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (record.ranks[i].host >= std::ssize(record.hosts)) ranks[i]["host"].refuse("the index of a host");
  }
  if (flows.empty()) root["flows"].refuse("a flow between two ranks");
  for (size_t i = 0; i < flows.size(); ++i) {
    const Flow& flow = record.flows[i];
    if (flow.from >= std::ssize(ranks)) flows[i]["from"].refuse("a rank");
    if (flow.to >= std::ssize(ranks) || flow.to == flow.from) flows[i]["to"].refuse("another rank");
    if (flow.kind != kNetwork && flow.kind != kLoopback && flow.kind != kMemory)
      flows[i]["kind"].refuse("network, loopback or memory");
    const auto refuse_unless_positive = [&](const char* key, const std::vector<double>& rounds) {
      const auto is_positive = [](double value) { return std::isfinite(value) && value > 0; };
      if (rounds.empty() || !std::ranges::all_of(rounds, is_positive))
        flows[i][key].refuse("numbers above 0");
    };
    refuse_unless_positive("rounds_gbit_per_s", flow.rounds_gbit_per_s);
    refuse_unless_positive("rounds_latency_s", flow.rounds_latency_s);
  }
}

}  // namespace

double Flow::low() const {
  return std::ranges::min(rounds_gbit_per_s);
}
double Flow::high() const {
  return std::ranges::max(rounds_gbit_per_s);
}

std::string Record::host_name(int host) const {
  const std::string& name = hosts[static_cast<size_t>(host)].system.host;
  const auto same = [&](const Host& other) { return other.system.host == name; };
  const auto rank = std::ranges::find(ranks, host, &Rank::host);
  if (std::ranges::count_if(hosts, same) < 2 || rank == ranks.end() || rank->address.empty()) return name;
  return fmt::format("{}/{}", name, rank->address);
}

void summarize(Record& record) {
  for (Flow& flow : record.flows) {
    flow.gbit_per_s = measure::median_of(flow.rounds_gbit_per_s);
    flow.latency_s = measure::median_of(flow.rounds_latency_s);
  }
  record.warnings = findings(record);
}

std::string to_json(const Record& record) {
  return json_text(encode_after({{"schema", kSchema}, {"schema_version", kSchemaVersion}}, record));
}

bool is_record(std::string_view text) {
  return text.starts_with(kBeginning);
}

Record from_json(std::string_view text, std::string_view name) {
  const nlohmann::json document = parse_json(text, name, kAdvice);
  const JsonNode root(document, name);
  if (!document.is_object() || root["schema"].text_or("") != kSchema)
    throw Error(fmt::format("'{}' is JSON, but no file of measured links", name), kAdvice);
  root["schema_version"].version(kSchemaVersion);
  Record record;
  decode(root, record);
  check(root, record);
  summarize(record);
  return record;
}

}  // namespace lockstep::links
