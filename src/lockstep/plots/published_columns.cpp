#include "lockstep/plots/published_columns.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/plain_text.h"

namespace lockstep::plots {
namespace {

/// Names that sources give the number of workers.
constexpr std::array<std::string_view, 3> kWorkers{"gpus", "ranks", "workers"};
/// Columns that a rate follows from; times_per_image() in published.cpp reads them.
constexpr std::array<std::string_view, 5> kRates{"images_per_s", "overall_images_per_s", "p50_s", "p75_s",
                                                 "train_s_per_5120_images"};
/// Columns that say more about a row without making it another curve.
constexpr std::array<std::string_view, 3> kRemarks{"nodes", "setup", "bound_to_numa_node"};
/// Columns that must hold numbers although their names do not show it.
constexpr std::array<std::string_view, 4> kNumbers{"nodes", "batch_per_gpu", "bucket_mb", "speedup"};

template <size_t N>
bool among(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

/// Measured values by the unit at the end of the name; these do not tell curves apart.
bool is_measured(std::string_view column) {
  return column.ends_with("_s") || column.ends_with("_percent") || column.ends_with("_images") ||
         column == "speedup";
}

/// Reads one text from front to back; counts lines for messages.
class CsvParser {
 public:
  CsvParser(std::string_view text, const std::string& name) : text_(text), name_(name) {
    // Spreadsheets write a byte order mark.
    if (text_.starts_with("\xEF\xBB\xBF")) text_.remove_prefix(3);
  }

  std::vector<CsvLine> parse() {
    std::vector<CsvLine> lines;
    while (at_ < text_.size()) {
      CsvLine record = parse_record();
      if (record.fields.size() > 1 || !record.fields[0].empty()) lines.push_back(std::move(record));
    }
    return lines;
  }

 private:
  CsvLine parse_record() {
    CsvLine record{line_, {}};
    while (true) {
      record.fields.push_back(
          plain_text(at_ < text_.size() && text_[at_] == '"' ? quoted_field() : plain_field()));
      if (at_ < text_.size() && text_[at_] == ',') {
        ++at_;
        continue;
      }
      end_of_line();
      return record;
    }
  }

  std::string plain_field() {
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != '\n') ++at_;
    size_t end = at_;
    // Spaces around a plain field are not part of it, nor is the \r of a Windows line end.
    while (end > begin && (text_[end - 1] == '\r' || text_[end - 1] == ' ')) --end;
    size_t first = begin;
    while (first < end && text_[first] == ' ') ++first;
    return std::string(text_.substr(first, end - first));
  }

  std::string quoted_field() {
    const int begin_line = line_;
    std::string field;
    // A doubled quote is a quote; a single one ends the field.
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '"') {
        if (at_ + 1 < text_.size() && text_[at_ + 1] == '"') {
          ++at_;
        } else {
          ++at_;
          return field;
        }
      }
      if (text_[at_] == '\n') ++line_;
      field += text_[at_];
    }
    throw Error(fmt::format("{}, line {}: a quoted field does not end", name_, begin_line),
                "Close the quote, or double a quote that belongs to the text.");
  }

  void end_of_line() {
    if (at_ < text_.size() && text_[at_] == '\r') ++at_;
    if (at_ >= text_.size()) return;
    if (text_[at_] != '\n') {
      throw Error(fmt::format("{}, line {}: text after a closing quote", name_, line_),
                  "Put a comma or the end of the line there.");
    }
    ++at_;
    ++line_;
  }

  std::string_view text_;
  const std::string& name_;
  size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

std::vector<CsvLine> parse_csv(std::string_view text, const std::string& name) {
  return CsvParser(text, name).parse();
}

PublishedColumns::PublishedColumns(std::vector<std::string> names, const std::string& table, int line)
    : names_(std::move(names)), table_(table) {
  for (size_t i = 0; i < names_.size(); ++i) {
    if (names_[i].empty()) {
      throw Error(fmt::format("{}, line {}, column {}: a column without a name", table_, line, i + 1),
                  "The first line names every column: see data/published/README.md.");
    }
    if (std::find(names_.begin(), names_.begin() + i, names_[i]) != names_.begin() + i) {
      throw Error(fmt::format("{}, line {}, column {}: a second column '{}'", table_, line, i + 1, names_[i]),
                  "Give every column a name of its own.");
    }
    if (among(kWorkers, names_[i]) && workers_.empty()) workers_ = names_[i];
  }
  if (workers_.empty()) {
    throw Error(fmt::format("{}, line {}: no column for the number of workers among '{}'", table_, line,
                            fmt::join(names_, "', '")),
                fmt::format("One column must be called {}.", fmt::join(kWorkers, ", or ")));
  }
  if (std::ranges::none_of(kRates, [&](std::string_view name) { return has(name); })) {
    throw Error(fmt::format("{}, line {}: no column that a speed follows from among '{}'", table_, line,
                            fmt::join(names_, "', '")),
                fmt::format("One column must be called {}.", fmt::join(kRates, ", or ")));
  }
}

std::optional<size_t> PublishedColumns::index_of(std::string_view column) const {
  const auto found = std::ranges::find(names_, column);
  if (found == names_.end()) return std::nullopt;
  return found - names_.begin();
}

std::string PublishedColumns::text(const PublishedRow& row, std::string_view column) const {
  const auto index = index_of(column);
  return index ? row.fields[*index] : "";
}

std::optional<double> PublishedColumns::number(const PublishedRow& row, std::string_view column) const {
  const std::string field = text(row, column);
  if (field.empty()) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  const bool negative = value < 0 && !column.ends_with("_percent");
  if (error != std::errc() || end != field.data() + field.size() || !std::isfinite(value) || negative) {
    throw Error(fmt::format("{}, line {}, column {}: '{}' is not a {}", table_, row.line, column, field,
                            negative && error == std::errc() ? "number of zero or more" : "number"),
                "Leave the field empty where nothing was published.");
  }
  return value;
}

int PublishedColumns::workers(const PublishedRow& row) const {
  const std::optional<double> value = number(row, workers_);
  // Fits an int with room to spare.
  constexpr double kMost = 100'000'000;
  if (!value || *value < 1 || *value > kMost || *value != std::floor(*value)) {
    throw Error(fmt::format("{}, line {}, column {}: '{}' is not a number of workers", table_, row.line,
                            workers_, text(row, workers_)),
                "A whole number from 1 on belongs there.");
  }
  return static_cast<int>(*value);
}

void PublishedColumns::check(const PublishedRow& row) const {
  for (const std::string& name : names_) {
    if (is_measured(name) || among(kNumbers, name)) number(row, name);
  }
}

std::vector<std::string> PublishedColumns::identity() const {
  std::vector<std::string> found;
  for (const std::string& name : names_) {
    if (name != workers_ && !is_measured(name) && !among(kRemarks, name)) found.push_back(name);
  }
  return found;
}

}  // namespace lockstep::plots
