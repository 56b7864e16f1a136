#include "lockstep/results/text_table.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/assert.h"

namespace lockstep::results {

void TextTable::add_column(std::string head, Align align) {
  LOCKSTEP_ASSERT(rows_.size() == 1);
  rows_.front().push_back(std::move(head));
  aligns_.push_back(align);
}

void TextTable::add_row(std::vector<std::string> fields) {
  LOCKSTEP_ASSERT(fields.size() == aligns_.size());
  rows_.push_back(std::move(fields));
}

std::string TextTable::text() const {
  std::vector<size_t> widths(aligns_.size());
  for (const auto& row : rows_) {
    for (size_t column = 0; column < widths.size(); ++column) {
      widths[column] = std::max(widths[column], row[column].size());
    }
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t column = 0; column < widths.size(); ++column) {
      if (column != 0) line += "  ";
      line += aligns_[column] == Align::kLeft ? fmt::format("{:<{}}", row[column], widths[column])
                                              : fmt::format("{:>{}}", row[column], widths[column]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

}  // namespace lockstep::results
