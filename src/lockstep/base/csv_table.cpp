#include "lockstep/base/csv_table.h"

#include <algorithm>

#include <boost/tokenizer.hpp>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/names.h"
#include "lockstep/base/plain_text.h"

namespace lockstep {

CsvTable::CsvTable(std::string_view text, std::string name, std::string advice)
    : name_(std::move(name)), advice_(std::move(advice)) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  for (int line = 1; !text.empty(); ++line) {
    const std::string_view text_of_line = trimmed(text.substr(0, text.find('\n')));
    if (!text_of_line.empty()) add_line(line, std::string(text_of_line));
    if (text.find('\n') == std::string_view::npos) break;
    text.remove_prefix(text.find('\n') + 1);
  }
  if (rows_.empty())
    throw ConfigError(fmt::format("{} holds no rows", name_),
                      "It needs a line that names the columns and one line for each measurement.");
}

void CsvTable::add_line(int line, const std::string& text) {
  // No character escapes another one; a quote inside quotes is dropped.
  using Separator = boost::escaped_list_separator<char>;
  const boost::tokenizer<Separator> tokens(text, Separator("", ",", "\""));
  std::vector<std::string> fields(tokens.begin(), tokens.end());
  for (std::string& field : fields) field = trimmed(field);
  if (columns_.empty()) {
    columns_ = std::move(fields);
    header_line_ = line;
    return;
  }
  rows_.push_back({line, std::move(fields)});
  row_ = rows_.size() - 1;
  const size_t found = rows_[row_].fields.size();
  if (found != columns_.size())
    refuse(fmt::format("{} fields, but line {} names {} columns", found, header_line_, columns_.size()));
}

bool CsvTable::has(std::string_view column) const {
  return std::ranges::find(columns_, column) != columns_.end();
}

std::string_view CsvTable::first_of(std::initializer_list<std::string_view> columns) const {
  for (const std::string_view column : columns)
    if (has(column)) return column;
  const std::vector<std::string> names(columns.begin(), columns.end());
  throw ConfigError(
      fmt::format("{}, line {}: there is no column {}", name_, header_line_, join_alternatives(names)),
      advice_);
}

std::string CsvTable::text(std::string_view column) const {
  const auto at = std::ranges::find(columns_, column);
  return at == columns_.end() ? "" : rows_[row_].fields[static_cast<size_t>(at - columns_.begin())];
}

std::optional<double> CsvTable::number(std::string_view column, const NumberRange& range) const {
  const std::string field = text(column);
  if (field.empty()) return {};
  const std::optional<double> value = parse_number(field, range);
  if (!value) refuse(fmt::format("{} takes {}, not '{}'", column, describe(range, false), plain_text(field)));
  return value;
}

int CsvTable::count(std::string_view column, std::optional<int> otherwise) const {
  const NumberRange range{.least = 1, .most = 1e7};
  const std::string field = text(column);
  if (field.empty() && otherwise) return *otherwise;
  const std::optional<int64_t> value = parse_whole(field, range);
  if (!value) refuse(fmt::format("{} takes {}, not '{}'", column, describe(range, true), plain_text(field)));
  return static_cast<int>(*value);
}

void CsvTable::refuse(const std::string& what) const {
  throw ConfigError(fmt::format("{}, line {}: {}", name_, rows_[row_].line, what), advice_);
}

}  // namespace lockstep
