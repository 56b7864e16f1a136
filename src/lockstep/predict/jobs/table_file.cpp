#include "lockstep/predict/jobs/table_file.h"

#include <cmath>
#include <sstream>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json_codec.h"

namespace lockstep::predict {
namespace {

constexpr const char* kTableAdvice =
    "Give a JSON list of {ranks, collective, bytes, time_s}, or what nccl-tests printed.";

std::vector<CollectivePoint> points_of_json(const std::string& text, const std::string& name) {
  const nlohmann::json document = parse_json(text, name, kTableAdvice);
  const JsonNode root(document, name);
  std::vector<CollectivePoint> points;
  for (const JsonNode& row : (document.is_object() ? root["collectives"] : root).elements()) {
    // Kinds that no strategy uses.
    const auto kind = collective_named(row["collective"].text());
    if (kind) points.push_back({row["ranks"].count(1), *kind, row["bytes"].number(), row["time_s"].number()});
  }
  return points;
}

/// Lines of nccl-tests: "#  Rank  0 Group ..." per rank, then size, count, type, redop, root, time in us, ...
std::vector<CollectivePoint> points_of_nccl_tests(const std::string& text) {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  for (const auto other : {CollectiveKind::kReduceScatter, CollectiveKind::kAllGather,
                           CollectiveKind::kReduce, CollectiveKind::kBroadcast}) {
    if (text.find(fmt::format("{}_perf", to_string(other))) != std::string::npos) kind = other;
  }
  if (text.find("all_reduce_perf") != std::string::npos) kind = CollectiveKind::kAllReduce;
  std::vector<CollectivePoint> points;
  int ranks = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first, second;
    words >> first;
    if (first == "#") {
      words >> second;
      if (second == "Rank") ++ranks;
      continue;
    }
    double bytes = 0, count = 0, time_us = 0;
    std::string type, redop, root;
    std::istringstream row(line);
    if (row >> bytes >> count >> type >> redop >> root >> time_us)
      points.push_back({0, kind, bytes, 1e-6 * time_us});
  }
  for (CollectivePoint& point : points) point.ranks = ranks;
  return points;
}

}  // namespace

std::vector<CollectivePoint> read_collectives(const std::filesystem::path& path) {
  const std::string text = read_file(path), name = path.string();
  const size_t begin = text.find_first_not_of(" \t\r\n");
  const bool json = begin != std::string::npos && (text[begin] == '{' || text[begin] == '[');
  std::vector<CollectivePoint> points = json ? points_of_json(text, name) : points_of_nccl_tests(text);
  std::erase_if(points, [](const CollectivePoint& point) { return point.bytes == 0; });
  for (const CollectivePoint& point : points) {
    if (std::isfinite(point.time_s) && point.time_s > 0 && point.bytes > 0) continue;
    throw ConfigError(fmt::format("'{}': {} of {:.0f} bytes at {} ranks took {} s, which is no time", name,
                                  to_string(point.kind), point.bytes, point.ranks, point.time_s),
                      kTableAdvice);
  }
  std::erase_if(points, [](const CollectivePoint& point) { return point.ranks < 2; });
  if (points.empty())
    throw ConfigError(fmt::format("'{}' has no times of collectives of two ranks or more", name),
                      kTableAdvice);
  return points;
}

}  // namespace lockstep::predict
