#include "lockstep/results/files/json_gpus.h"

#include <array>
#include <utility>

#include <nlohmann/json.hpp>

#include "lockstep/results/files/json_findings.h"
#include "lockstep/results/files/json_parse.h"

namespace lockstep::results {
namespace {

using topology::GpuUse;
using topology::Slowdown;
using topology::Spread;

constexpr std::array<std::pair<const char*, std::optional<Spread> GpuUse::*>, 7> kSpreads{{
    {"sm_clock_mhz", &GpuUse::sm_clock_mhz},
    {"memory_clock_mhz", &GpuUse::memory_clock_mhz},
    {"temperature_c", &GpuUse::temperature_c},
    {"power_w", &GpuUse::power_w},
    {"kernel_share", &GpuUse::kernel_share},
    {"memory_share", &GpuUse::memory_share},
    {"memory_used_bytes", &GpuUse::memory_used_bytes},
}};

constexpr std::array<std::pair<const char*, std::optional<double> GpuUse::*>, 3> kLimits{{
    {"max_sm_clock_mhz", &GpuUse::max_sm_clock_mhz},
    {"power_limit_w", &GpuUse::power_limit_w},
    {"memory_bytes", &GpuUse::memory_bytes},
}};

Json spread_json(const std::optional<Spread>& spread) {
  if (!spread) return nullptr;
  return {{"min", number(spread->least)}, {"median", number(spread->median)}, {"max", number(spread->most)}};
}

std::optional<Spread> read_spread(const JsonNode& node) {
  if (node.missing()) return std::nullopt;
  return Spread{node["min"].number(), node["median"].number(), node["max"].number()};
}

Json one_gpu_use_json(const GpuUse& use) {
  Json json;
  json["samples"] = use.samples;
  for (const auto& [name, member] : kSpreads) json[name] = spread_json(use.*member);
  for (const auto& [name, member] : kLimits) json[name] = number(use.*member);
  json["slowed_share"] = number(use.slowed_share);
  json["slowed_by"] = Json::array();
  for (const Slowdown& slowdown : use.slowed_by) {
    json["slowed_by"].push_back({{"by", slowdown.by}, {"share", number(slowdown.share)}});
  }
  return json;
}

GpuUse read_one_gpu_use(const JsonNode& node) {
  GpuUse use;
  use.samples = node["samples"].count_or(0, 0);
  for (const auto& [name, member] : kSpreads) use.*member = read_spread(node[name]);
  for (const auto& [name, member] : kLimits) use.*member = node[name].optional_number();
  use.slowed_share = node["slowed_share"].number_or(0);
  if (const JsonNode slowdowns = node["slowed_by"]; !slowdowns.missing()) {
    for (const JsonNode& slowdown : slowdowns.elements()) {
      use.slowed_by.push_back({slowdown["by"].text(), slowdown["share"].number_or(0)});
    }
  }
  return use;
}

Json known_text(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json one_rank_gpu_json(const topology::RankGpu& gpu) {
  return {{"host", known_text(gpu.host)},
          {"name", known_text(gpu.name)},
          {"pci_bus_id", known_text(gpu.pci_bus_id)},
          {"uuid", known_text(gpu.uuid)}};
}

topology::RankGpu read_one_rank_gpu(const JsonNode& node) {
  return {.host = node["host"].text_or(""),
          .name = node["name"].text_or(""),
          .pci_bus_id = node["pci_bus_id"].text_or(""),
          .uuid = node["uuid"].text_or("")};
}

}  // namespace

Json rank_gpus_json(const std::vector<topology::RankGpu>& gpus) {
  Json list = Json::array();
  for (const topology::RankGpu& gpu : gpus) list.push_back(one_rank_gpu_json(gpu));
  return list;
}

std::vector<topology::RankGpu> read_rank_gpus(const JsonNode& node) {
  std::vector<topology::RankGpu> gpus;
  if (node.missing()) return gpus;
  for (const JsonNode& gpu : node.elements()) gpus.push_back(read_one_rank_gpu(gpu));
  return gpus;
}

Json gpu_use_json(const std::vector<GpuUse>& gpus) {
  Json list = Json::array();
  for (const GpuUse& use : gpus) list.push_back(one_gpu_use_json(use));
  return list;
}

std::vector<GpuUse> read_gpu_use(const JsonNode& node) {
  std::vector<GpuUse> gpus;
  if (node.missing()) return gpus;
  for (const JsonNode& use : node.elements()) gpus.push_back(read_one_gpu_use(use));
  return gpus;
}

std::string rank_gpu_to_json(const topology::RankGpu& gpu) {
  return to_text(one_rank_gpu_json(gpu));
}

topology::RankGpu rank_gpu_from_json(std::string_view text) {
  const nlohmann::json document = parse_json(text, "GPU of a rank");
  return read_one_rank_gpu(JsonNode(document, "GPU of a rank"));
}

std::string gpu_use_to_json(const std::vector<GpuUse>& gpus) {
  return to_text(gpu_use_json(gpus));
}

std::vector<GpuUse> gpu_use_from_json(std::string_view text) {
  const nlohmann::json document = parse_json(text, "use of GPUs");
  return read_gpu_use(JsonNode(document, "use of GPUs"));
}

}  // namespace lockstep::results
