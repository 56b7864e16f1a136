#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::plots {

struct CsvLine {
  /// Of the file, counted from 1: where the record begins.
  int line = 0;
  std::vector<std::string> fields;
};

/// The records of a comma-separated text (RFC 4180: quoted fields, doubled quotes, line ends inside of
/// quotes;
/// "\n" or "\r\n"; a byte order mark is skipped, empty lines are left out). Throws Error that names `name`
/// and the line for a quote that does not end and for text after a closing quote.
std::vector<CsvLine> parse_csv(std::string_view text, const std::string& name);

}  // namespace lockstep::plots
