#include "lockstep/recordings/trace_metadata.h"

#include "lockstep/base/json_node.h"
#include "lockstep/recordings/event_names.h"

namespace lockstep::recordings {

void read_distributed(const nlohmann::json& value, KinetoTrace& trace) {
  if (!value.is_object()) return;
  const JsonNode node(value, trace.file);
  if (!node["rank"].missing()) trace.rank = static_cast<int>(node["rank"].whole(0, kMostRanks));
  if (!node["world_size"].missing()) trace.world = static_cast<int>(node["world_size"].whole(1, kMostRanks));
  if (trace.rank && trace.world && *trace.rank >= *trace.world)
    node["rank"].refuse("a rank below world_size");
  trace.backend = node["backend"].text_or("");
  const auto groups = value.find("pg_config");
  if (groups == value.end() || !groups->is_array()) return;
  // A file may repeat the key.
  trace.groups.clear();
  for (const JsonNode& each : node["pg_config"].elements()) {
    ProcessGroup group{each["pg_name"].text_or(""), {}};
    if (const JsonNode ranks = each["ranks"]; !ranks.missing()) {
      const nlohmann::json& listed = (*groups)[trace.groups.size()]["ranks"];
      if (listed.is_string()) {
        group.ranks = ranks_in_text(listed.get_ref<const std::string&>());
      } else {
        for (const JsonNode& rank : ranks.elements())
          group.ranks.push_back(static_cast<int>(rank.whole(0, kMostRanks)));
      }
    }
    trace.groups.push_back(std::move(group));
  }
}

void read_devices(const nlohmann::json& value, KinetoTrace& trace) {
  if (!value.is_array()) return;
  const std::vector<JsonNode> devices = JsonNode(value, trace.file).elements();
  if (!devices.empty()) trace.gpu = devices.front()["name"].text_or("");
}

}  // namespace lockstep::recordings
