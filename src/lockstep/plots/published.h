#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::plots {

/// One published measurement. An empty optional was not published.
struct PublishedRow {
  /// Line in the file, from 1.
  int line = 0;
  /// Text of the fields, in the order of PublishedTable::columns.
  std::vector<std::string> fields;
  int workers = 0;
  std::optional<double> batch_per_worker;
  /// Images per second of the whole job: as published, or batch * workers / the time of a step, or images /
  /// seconds of all that was timed, waiting for one another included.
  std::optional<double> images_per_s;
  /// Speed-up by the source's own formula, which may leave out time, from its own numbers; empty without a
  /// baseline.
  std::optional<double> speedup;
  /// images_per_s / images_per_s of the baseline row.
  std::optional<double> honest_speedup;
  /// Speed-up as the file itself states it.
  std::optional<double> stated_speedup;
  /// A row without a strategy ("no ddp") that others are compared with. It is a point of a curve only if no
  /// other row has as many workers.
  bool baseline = false;
};

/// Rows that differ only in their number of workers.
struct PublishedCurve {
  /// Settings that tell the curve from others of its table: "resnet50, 16 per worker".
  std::string label;
  std::string model;
  /// Indices into PublishedTable::rows, workers rising, one per number of workers.
  std::vector<size_t> rows;
};

/// More than any publication has; a page of them is drawn in seconds.
constexpr size_t kMostPublishedRows = 1000;

struct PublishedTable {
  /// The file's name without folder and ending.
  std::string name;
  std::vector<std::string> columns;
  std::vector<PublishedRow> rows;
  std::vector<PublishedCurve> curves;
  /// The source's speed-up leaves out time that honest_speedup counts.
  bool leaves_out_time = false;
};

/// Reads a table as data/published/README.md describes the format. Throws Error that names `name` (the file),
/// the line and the column, and what was expected; for more than kMostPublishedRows too.
PublishedTable parse_published(std::string_view text, const std::string& name);
PublishedTable read_published(const std::filesystem::path& path);

}  // namespace lockstep::plots
