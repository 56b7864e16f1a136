#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/plots/published.h"

namespace lockstep::plots {

struct CsvLine {
  /// Line of the file, from 1, where the record begins.
  int line = 0;
  std::vector<std::string> fields;
};

/// The records of a comma-separated text (RFC 4180: quoted fields, doubled quotes, line ends inside quotes;
/// "\n" or "\r\n"; a byte order mark is skipped, empty lines are left out), each field as plain_text() makes
/// it. Throws Error that names `name`
/// and the line for a quote that does not end and for text after a closing quote.
std::vector<CsvLine> parse_csv(std::string_view text, const std::string& name);

/// The columns of a published table by meaning, and the numbers in them.
class PublishedColumns {
 public:
  /// Throws Error for an empty or repeated name, and for a table without a column for the workers or without
  /// one that a rate follows from.
  PublishedColumns(std::vector<std::string> names, const std::string& table, int line);

  const std::vector<std::string>& names() const { return names_; }
  bool has(std::string_view column) const { return index_of(column).has_value(); }
  /// Text of a field; empty if the table lacks the column.
  std::string text(const PublishedRow& row, std::string_view column) const;
  /// The number in a field; empty where nothing was published. Throws Error that names file, line and column
  /// for what is not a finite number of zero or more (a change in percent may be negative).
  std::optional<double> number(const PublishedRow& row, std::string_view column) const;
  /// Number of workers. Throws Error for anything but a whole number from 1 on.
  int workers(const PublishedRow& row) const;
  /// Reads every field that must hold a number, so that a mistake in any of them is found.
  void check(const PublishedRow& row) const;
  /// Columns that tell one curve from another: neither the workers nor a measured value.
  std::vector<std::string> identity() const;

 private:
  std::optional<size_t> index_of(std::string_view column) const;

  std::vector<std::string> names_;
  std::string table_;
  std::string workers_;
};

}  // namespace lockstep::plots
