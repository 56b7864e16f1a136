#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/number_range.h"

namespace lockstep {

/// Rows of a comma-separated table whose first line that is not empty names the columns; quotes as in RFC
/// 4180, but neither quotes nor line ends inside. One row at a time is read. Errors are ConfigError, name the
/// table and the line, and carry `advice`.
class CsvTable {
 public:
  /// Throws for a text without rows, and for a row with another number of fields than columns.
  CsvTable(std::string_view text, std::string name, std::string advice);

  size_t size() const { return rows_.size(); }
  /// Continues with this row, which all functions below read.
  void select(size_t row) { row_ = row; }

  bool has(std::string_view column) const;
  /// The first of these columns that the table has. Throws where it has none.
  std::string_view first_of(std::initializer_list<std::string_view> columns) const;
  /// Empty where the column is missing.
  std::string text(std::string_view column) const;
  /// Nothing for an empty field. Throws for any other text that is no number in the range.
  std::optional<double> number(std::string_view column, const NumberRange& range = {.above = true}) const;
  /// A number of things, 1 or more; `otherwise` for an empty field. Throws for any other text.
  int count(std::string_view column, std::optional<int> otherwise = {}) const;
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  struct Row {
    int line;
    std::vector<std::string> fields;
  };

  void add_line(int line, const std::string& text);

  std::string name_, advice_;
  std::vector<std::string> columns_;
  int header_line_ = 1;
  std::vector<Row> rows_;
  size_t row_ = 0;
};

}  // namespace lockstep
