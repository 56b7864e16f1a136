#include "lockstep/plots/published.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/plots/published_columns.h"

namespace lockstep::plots {
namespace {

constexpr double kTheanoImages = 5120;

/// Seconds per image: by the source's own reckoning, of which its speed-up is the ratio, and in all.
struct RowTimes {
  std::optional<double> own_s;
  std::optional<double> all_s;
};

/// A ratio of times; empty where either is unknown.
std::optional<double> divided(std::optional<double> a, std::optional<double> b) {
  if (!a || !b || *b <= 0) return std::nullopt;
  return *a / *b;
}

/// Times per image of the whole job, from the first column that gives one.
RowTimes times_per_image(const PublishedRow& row, const PublishedColumns& columns) {
  for (const char* column : {"images_per_s", "overall_images_per_s"}) {
    if (const auto rate = columns.number(row, column); rate && *rate > 0) return {1 / *rate, 1 / *rate};
  }
  for (const char* column : {"p50_s", "p75_s"}) {
    if (const auto step_s = columns.number(row, column); step_s && *step_s > 0) {
      const double per_image = *step_s / (row.batch_per_worker.value_or(1) * row.workers);
      return {per_image, per_image};
    }
  }
  const auto train_s = columns.number(row, "train_s_per_5120_images");
  if (!train_s || *train_s <= 0) return {};
  const double own_s = *train_s + columns.number(row, "communication_s_per_5120_images").value_or(0);
  const double waiting_s = columns.number(row, "synchronisation_s_per_5120_images").value_or(0);
  return {own_s / kTheanoImages, (own_s + waiting_s) / kTheanoImages};
}

/// One row, checked field by field; speed-ups follow once its curve is known.
PublishedRow read_row(const CsvLine& line, const PublishedColumns& columns, const std::string& name) {
  if (line.fields.size() != columns.names().size()) {
    throw Error(fmt::format("{}, line {}: {} fields, but the first line names {} columns", name, line.line,
                            line.fields.size(), columns.names().size()),
                "Leave a field empty where nothing was published; quote one that contains a comma.");
  }
  PublishedRow row{.line = line.line, .fields = line.fields};
  row.workers = columns.workers(row);
  columns.check(row);
  row.batch_per_worker = columns.number(row, "batch_per_gpu");
  row.stated_speedup = columns.number(row, "speedup");
  row.baseline = columns.text(row, "setup") == "no ddp";
  if (const RowTimes times = times_per_image(row, columns); times.all_s) row.images_per_s = 1 / *times.all_s;
  return row;
}

/// "batch_per_gpu" 32 becomes "batch 32", "bucket_mb" 1 "bucket 1 MB", "compiled" yes "compiled".
std::string phrase(const std::string& column, const std::string& value) {
  if (column == "batch_per_gpu") return "batch " + value;
  if (column == "bucket_mb") return "buckets of " + value + " MB";
  if (column == "compiled") return value == "yes" ? "compiled" : "";
  if (column == "input") return value.empty() ? "" : "input " + value;
  return value;
}

/// Groups rows into curves, each named by what varies between them.
std::vector<PublishedCurve> find_curves(const PublishedTable& table, const PublishedColumns& columns) {
  const std::vector<std::string> identity = columns.identity();
  std::vector<std::string> varying;
  for (const std::string& column : identity) {
    std::set<std::string> values;
    for (const PublishedRow& row : table.rows) values.insert(columns.text(row, column));
    if (values.size() > 1) varying.push_back(column);
  }
  std::vector<PublishedCurve> curves;
  std::vector<std::vector<std::string>> keys;
  for (size_t i = 0; i < table.rows.size(); ++i) {
    std::vector<std::string> key, words;
    for (const std::string& column : identity) key.push_back(columns.text(table.rows[i], column));
    for (const std::string& column : varying) {
      if (std::string word = phrase(column, columns.text(table.rows[i], column)); !word.empty())
        words.push_back(word);
    }
    const size_t at = std::ranges::find(keys, key) - keys.begin();
    if (at == keys.size()) {
      keys.push_back(key);
      curves.push_back({fmt::format("{}", fmt::join(words, ", ")), columns.text(table.rows[i], "model"), {}});
    }
    curves[at].rows.push_back(i);
  }
  return curves;
}

/// Sets the speed-ups of a curve's rows against its baseline, and leaves one row per number of workers.
void finish_curve(PublishedTable& table, PublishedCurve& curve, const PublishedColumns& columns) {
  std::ranges::stable_sort(
      curve.rows, {}, [&](size_t i) { return std::pair(table.rows[i].workers, !table.rows[i].baseline); });
  const PublishedRow& base = table.rows[curve.rows.front()];
  // A speed-up is relative to one worker; without that measurement there is none.
  if (base.workers == 1) {
    const RowTimes base_times = times_per_image(base, columns);
    for (size_t i : curve.rows) {
      const RowTimes times = times_per_image(table.rows[i], columns);
      table.rows[i].speedup = divided(base_times.own_s, times.own_s);
      table.rows[i].honest_speedup = divided(base_times.all_s, times.all_s);
      table.leaves_out_time |= times.own_s != times.all_s;
    }
  }
  // One point per number of workers: a measured strategy replaces the baseline.
  std::vector<size_t> points;
  for (size_t i : curve.rows) {
    if (points.empty() || table.rows[points.back()].workers != table.rows[i].workers) {
      points.push_back(i);
    } else if (table.rows[points.back()].baseline) {
      points.back() = i;
    }
  }
  curve.rows = std::move(points);
}

}  // namespace

PublishedTable parse_published(std::string_view text, const std::string& name) {
  const std::vector<CsvLine> lines = parse_csv(text, name);
  if (lines.empty()) {
    throw Error(fmt::format("{}: the file is empty", name),
                "A published table begins with a line that names its columns: see data/published/README.md.");
  }
  const PublishedColumns columns(lines.front().fields, name, lines.front().line);
  if (lines.size() - 1 > kMostPublishedRows) {
    throw Error(
        fmt::format("{}: {} rows, and a table has {} at most", name, lines.size() - 1, kMostPublishedRows),
        "Leave out the rows that the drawing does not need, or give several files.");
  }
  PublishedTable table{.name = std::filesystem::path(name).stem().string(), .columns = columns.names()};
  for (size_t i = 1; i < lines.size(); ++i) table.rows.push_back(read_row(lines[i], columns, name));
  if (table.rows.empty()) {
    throw Error(fmt::format("{}: no row under the names of the columns", name),
                "Add a line for each measurement.");
  }
  table.curves = find_curves(table, columns);
  for (PublishedCurve& curve : table.curves) finish_curve(table, curve, columns);
  return table;
}

PublishedTable read_published(const std::filesystem::path& path) {
  return parse_published(read_file(path), path.string());
}

}  // namespace lockstep::plots
