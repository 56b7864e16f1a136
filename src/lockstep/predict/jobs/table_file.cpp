#include "lockstep/predict/jobs/table_file.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/csv_table.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json_codec.h"
#include "lockstep/base/plain_text.h"
#include "lockstep/base/units.h"
#include "lockstep/collectives/import.h"
#include "lockstep/collectives/record.h"

namespace lockstep::predict {
namespace {

constexpr const char* kTableAdvice =
    "Give a file of 'lockstep collectives --json FILE' (with --import and --ranks from what OSU printed), a "
    "JSON list of {ranks, collective, bytes, time_s}, or a comma-separated table with these columns.";

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

using Note = std::function<void(const std::string&)>;

std::vector<CollectivePoint> points_of_rows(const std::vector<collectives::Row>& rows,
                                            const std::string& name, const Note& note) {
  std::vector<CollectivePoint> points;
  std::set<std::string> others;
  int64_t wrong = 0;
  for (const char* place : {collectives::kOutOfPlace, collectives::kInPlace}) {
    for (const collectives::Row& row : rows) {
      if (row.place != place) continue;
      const auto kind = collective_named(row.collective);
      others.insert(fmt::format("{} of {}", row.collective, counted(row.ranks, "rank")));
      if (row.is_wrong()) ++wrong;
      if (!kind || row.ranks < 2 || row.is_wrong() || row.computing || row.at_a_time > 1) continue;
      const CollectivePoint point{row.ranks, *kind, static_cast<double>(row.bytes), row.median_s};
      const bool known = std::ranges::any_of(points, [&](const CollectivePoint& other) {
        return other.ranks == point.ranks && other.kind == point.kind && other.bytes == point.bytes;
      });
      if (!known) points.push_back(point);
    }
  }
  if (wrong > 0) note(fmt::format("'{}': {} with wrong results left out", name, counted(wrong, "row")));
  const bool direct = std::ranges::any_of(
      points, [](const CollectivePoint& point) { return point.kind == CollectiveKind::kAllReduce; });
  if (!points.empty() && !direct)
    note(fmt::format("'{}' has no all_reduce: its costs follow from {}", name, fmt::join(others, ", ")));
  if (!points.empty()) return points;
  throw ConfigError(
      fmt::format("'{}' has no all_reduce of two ranks or more; it has {}", name, fmt::join(others, ", ")),
      kTableAdvice);
}

std::vector<CollectivePoint> points_of_record(const std::string& text, const std::string& name,
                                              const std::string& backend, const Note& note) {
  std::vector<collectives::Row> rows = collectives::from_json(text, name).rows;
  std::set<std::string> backends;
  for (const collectives::Row& row : rows) backends.insert(row.backend);
  if (backends.size() > 1 && !backends.contains(backend)) {
    throw ConfigError(fmt::format("'{}' has collectives over {}, and the job ran over {}", name,
                                  fmt::join(backends, ", "), backend),
                      "Give a file of one of them.");
  }
  if (backends.size() > 1)
    std::erase_if(rows, [&](const collectives::Row& row) { return row.backend != backend; });
  return points_of_rows(rows, name, note);
}

/// Whether the first line names columns, one of them `bytes`.
bool is_csv(std::string_view text) {
  const std::vector<std::string> columns = split_at_commas(text.substr(0, text.find('\n')));
  return columns.size() > 1 && std::ranges::find(columns, "bytes") != columns.end();
}

/// Ranks of a row without a column of their own begin its `setup`: "8 ranks, 1 node".
int ranks_of(const CsvTable& table) {
  for (const char* column : {"ranks", "gpus", "workers"})
    if (table.has(column)) return table.count(column);
  const std::string setup = table.text("setup");
  const auto ranks = parse_whole(setup.substr(0, setup.find(' ')), {.least = 1, .most = 1e7});
  if (!ranks) table.refuse("neither ranks nor setup says how many ranks took part");
  return static_cast<int>(*ranks);
}

std::vector<CollectivePoint> points_of_csv(const std::string& text, const std::string& name) {
  CsvTable table(text, name, kTableAdvice);
  const std::string_view kind_column = table.first_of({"collective", "operation"});
  const std::string_view time_column = table.first_of({"time_s", "time_us", "out_of_place_us"});
  std::vector<CollectivePoint> points;
  for (size_t row = 0; row < table.size(); ++row) {
    table.select(row);
    // What follows is the type and how it is reduced: "all_reduce float sum".
    const std::string kind_text = table.text(kind_column);
    const auto kind = collective_named(kind_text.substr(0, kind_text.find(' ')));
    const auto bytes = table.number("bytes"), time = table.number(time_column);
    if (kind && bytes && time)
      points.push_back({ranks_of(table), *kind, *bytes, *time * (time_column == "time_s" ? 1 : 1e-6)});
  }
  return points;
}

std::vector<CollectivePoint> points_of_text(const std::string& text, const std::string& name,
                                            const Note& note) {
  collectives::ImportedText imported;
  try {
    imported = collectives::import_text(text, name, {.usual_collective = "all_reduce"});
  } catch (const Error& error) {
    throw ConfigError(
        fmt::format("'{}' has no times of collectives of two ranks or more: {}", name, error.what()),
        kTableAdvice);
  }
  for (const std::string& sentence : imported.notes) note(sentence);
  const auto again = std::erase_if(imported.rows, [](const auto& row) { return row.backend.ends_with(')'); });
  if (again > 0)
    note(fmt::format("'{}': {} of tests that were run again left out", name,
                     counted(static_cast<int64_t>(again), "row")));
  return points_of_rows(imported.rows, name, note);
}

}  // namespace

std::vector<CollectivePoint> read_collectives(const std::filesystem::path& path, const std::string& backend,
                                              const std::function<void(const std::string&)>& note) {
  const std::string text = read_file(path), name = path.string();
  const size_t begin = text.find_first_not_of(" \t\r\n");
  // "[1,0]<stdout>:" is no list of rows.
  const size_t second = text.find_first_not_of(" \t\r\n", begin + 1);
  const bool json =
      begin != std::string::npos &&
      (text[begin] == '{' || (text[begin] == '[' && second != text.npos && text[second] == '{'));
  std::vector<CollectivePoint> points = collectives::is_record(text)
                                            ? points_of_record(text, name, backend, note)
                                        : json         ? points_of_json(text, name)
                                        : is_csv(text) ? points_of_csv(text, name)
                                                       : points_of_text(text, name, note);
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
