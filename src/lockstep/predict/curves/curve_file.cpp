#include "lockstep/predict/curves/curve_file.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "lockstep/base/csv_table.h"
#include "lockstep/base/file.h"
#include "lockstep/base/number_range.h"
#include "lockstep/measure/percentiles.h"

namespace lockstep::predict {
namespace {

constexpr const char* kColumnsAdvice = "data/published/README.md describes the columns.";

/// Columns whose values are the same along a curve of a table without a column `curve`.
constexpr std::string_view kJobColumns[] = {
    "model",           "batch_per_gpu", "hardware", "network",    "precision", "system", "strategy",
    "variable_update", "input",         "compiled", "image_size", "bucket_mb", "setup"};

std::string curve_name(const CsvTable& table) {
  if (table.has("curve")) return table.text("curve");
  std::string name;
  for (const std::string_view column : kJobColumns) {
    const std::string value = table.text(column);
    // "1M/2R" states the count; other setups ("no ddp") are jobs of their own.
    if (value.empty() || (column == "setup" && value.find("M/") != std::string::npos)) continue;
    name += (name.empty() ? "" : " ") + value;
  }
  return name.empty() ? "curve" : name;
}

/// Images per second of the whole job; from seconds where the table has no rate. Nothing: not published.
std::optional<double> rate_of(const CsvTable& table, int gpus) {
  for (const char* column : {"images_per_s", "overall_images_per_s"})
    if (table.has(column)) return table.number(column);
  if (table.has("train_s_per_5120_images")) {
    double seconds = 0;
    for (const char* part : {"train", "communication", "synchronisation"})
      seconds += table.number(fmt::format("{}_s_per_5120_images", part), {}).value_or(0);
    if (seconds <= 0) table.refuse("there is no time");
    return 5120 / seconds;
  }
  const std::optional<double> step_s = table.number(table.first_of({"p50_s", "p75_s", "images_per_s"}));
  const double batch = table.number("batch_per_gpu").value_or(1);
  return step_s ? std::optional(gpus * batch / *step_s) : std::nullopt;
}

}  // namespace

std::vector<Curve> read_curves(const std::filesystem::path& path) {
  CsvTable table(read_file(path), path.string(), kColumnsAdvice);
  const std::string_view count_column = table.first_of({"gpus", "ranks", "workers"});
  std::vector<Curve> curves;
  std::map<std::string, size_t> places;
  for (size_t row = 0; row < table.size(); ++row) {
    table.select(row);
    const std::string name = curve_name(table);
    if (name.empty()) table.refuse("curve is empty");
    const auto [place, is_new] = places.emplace(name, curves.size());
    if (is_new)
      curves.push_back({name,
                        table.text("model"),
                        table.text("precision"),
                        table.text("source"),
                        table.number("parameters").value_or(0),
                        {}});
    CurvePoint point{.gpus = table.count(count_column),
                     .batch_per_gpu = table.number("batch_per_gpu").value_or(0)};
    // "2M/16G" of a table without a column `nodes`.
    const std::string setup = table.text("setup");
    const auto machines = parse_whole(setup.substr(0, setup.find("M/")), {.least = 1, .most = 1e6});
    point.nodes = table.count("nodes", static_cast<int>(machines.value_or(1)));
    if (point.nodes > point.gpus) table.refuse(fmt::format("{} nodes for {} GPUs", point.nodes, point.gpus));
    const std::optional<double> rate = rate_of(table, point.gpus);
    if (!rate) continue;
    point.images_per_s = *rate;
    curves[place->second].points.push_back(point);
  }
  std::erase_if(curves, [](const Curve& curve) { return curve.points.empty(); });
  for (Curve& curve : curves) {
    std::map<int, std::vector<CurvePoint>> by_count;
    for (const CurvePoint& point : curve.points) by_count[point.gpus].push_back(point);
    curve.points.clear();
    for (const auto& [gpus, repeated] : by_count) {
      std::vector<double> rates;
      for (const CurvePoint& point : repeated) rates.push_back(point.images_per_s);
      curve.points.push_back(repeated.front());
      curve.points.back().images_per_s = measure::percentile(rates, 50);
    }
  }
  return curves;
}

}  // namespace lockstep::predict
