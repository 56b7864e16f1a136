#include "lockstep/predict/curves/curve_file.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include <boost/tokenizer.hpp>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/names.h"
#include "lockstep/base/number_range.h"
#include "lockstep/base/plain_text.h"
#include "lockstep/measure/percentiles.h"

namespace lockstep::predict {
namespace {

constexpr const char* kColumnsAdvice = "data/published/README.md describes the columns.";

/// Rows of a comma-separated file whose first line names the columns; quotes as in RFC 4180, without line
/// ends inside.
class Table {
 public:
  explicit Table(const std::filesystem::path& path) : path_(path.string()) {
    const std::string text = read_file(path);
    std::string_view rest = text;
    if (rest.starts_with("\xEF\xBB\xBF")) rest.remove_prefix(3);
    for (; !rest.empty(); rest.remove_prefix(std::min(rest.size(), rest.find('\n') + 1))) {
      ++line_;
      const std::string_view text_of_line = trimmed(rest.substr(0, rest.find('\n')));
      if (!text_of_line.empty()) add_line(std::string(text_of_line));
      if (rest.find('\n') == std::string_view::npos) break;
    }
    if (rows_.empty())
      throw ConfigError(fmt::format("{} holds no rows", path_),
                        "It needs a line that names the columns and one line for each measurement.");
  }

  size_t size() const { return rows_.size(); }
  /// Continues with this row: text() and number() read it.
  void select(size_t row) { row_ = row; }

  bool has(std::string_view column) const { return std::ranges::find(columns_, column) != columns_.end(); }
  /// The first of these columns that the table has. Throws where it has none.
  std::string_view first_of(std::initializer_list<std::string_view> columns) const {
    for (const std::string_view column : columns)
      if (has(column)) return column;
    const std::vector<std::string> names(columns.begin(), columns.end());
    throw ConfigError(fmt::format("{}, line 1: there is no column {}", path_, join_alternatives(names)),
                      kColumnsAdvice);
  }
  /// Empty where the column is missing.
  std::string text(std::string_view column) const {
    const auto at = std::ranges::find(columns_, column);
    return at == columns_.end() ? "" : rows_[row_].fields[static_cast<size_t>(at - columns_.begin())];
  }
  /// Nothing for an empty field. Throws for any other text.
  std::optional<double> number(std::string_view column, const NumberRange& range = {.above = true}) const {
    const std::string field = text(column);
    if (field.empty()) return {};
    const std::optional<double> value = parse_number(field, range);
    if (!value)
      refuse(fmt::format("{} takes {}, not '{}'", column, describe(range, false), plain_text(field)));
    return value;
  }
  int count(std::string_view column, std::optional<int> otherwise = {}) const {
    const NumberRange range{.least = 1, .most = 1e7};
    const std::string field = text(column);
    if (field.empty() && otherwise) return *otherwise;
    const std::optional<int64_t> value = parse_whole(field, range);
    if (!value)
      refuse(fmt::format("{} takes {}, not '{}'", column, describe(range, true), plain_text(field)));
    return static_cast<int>(*value);
  }
  [[noreturn]] void refuse(const std::string& what) const {
    throw ConfigError(fmt::format("{}, line {}: {}", path_, rows_[row_].line, what), kColumnsAdvice);
  }

 private:
  struct Row {
    int line;
    std::vector<std::string> fields;
  };

  void add_line(const std::string& line) {
    // No character escapes another one; a quote inside quotes is dropped.
    using Separator = boost::escaped_list_separator<char>;
    const boost::tokenizer<Separator> tokens(line, Separator("", ",", "\""));
    std::vector<std::string> fields(tokens.begin(), tokens.end());
    for (std::string& field : fields) field = trimmed(field);
    if (columns_.empty()) {
      columns_ = std::move(fields);
      return;
    }
    rows_.push_back({line_, std::move(fields)});
    row_ = rows_.size() - 1;
    const size_t found = rows_[row_].fields.size();
    if (found != columns_.size())
      refuse(fmt::format("{} fields, but line 1 names {} columns", found, columns_.size()));
  }

  std::string path_;
  int line_ = 0;
  std::vector<std::string> columns_;
  std::vector<Row> rows_;
  size_t row_ = 0;
};

/// Columns whose values are the same along a curve of a table without a column `curve`.
constexpr std::string_view kJobColumns[] = {
    "model",           "batch_per_gpu", "hardware", "network",    "precision", "system", "strategy",
    "variable_update", "input",         "compiled", "image_size", "bucket_mb", "setup"};

std::string curve_name(const Table& table) {
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
std::optional<double> rate_of(const Table& table, int gpus) {
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
  Table table(path);
  const std::string_view count_column = table.first_of({"gpus", "ranks", "workers"});
  std::vector<Curve> curves;
  std::map<std::string, size_t> places;
  for (size_t row = 0; row < table.size(); ++row) {
    table.select(row);
    const std::string name = curve_name(table);
    if (name.empty()) table.refuse("curve is empty");
    const auto [place, is_new] = places.emplace(name, curves.size());
    if (is_new)
      curves.push_back({name, table.text("model"), table.text("precision"), table.text("source"), {}});
    CurvePoint point{.gpus = table.count(count_column),
                     .batch_per_gpu = table.number("batch_per_gpu").value_or(0)};
    point.nodes = table.count("nodes", 1);
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
