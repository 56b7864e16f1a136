#include "lockstep/results/tables/text_table.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "lockstep/base/assert.h"
#include "lockstep/results/tables/notices.h"

namespace lockstep::results {
namespace {

constexpr size_t kGap = 2;

/// So that the text stands in one cell and means nothing to Markdown.
std::string cell(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|' || c == '*' || c == '<' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

}  // namespace

size_t display_width(std::string_view text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

void TextTable::add_column(std::string head, Align align) {
  LOCKSTEP_ASSERT(rows_.size() == 1);
  rows_.front().push_back(std::move(head));
  aligns_.push_back(align);
}

void TextTable::add_row(std::vector<std::string> fields) {
  LOCKSTEP_ASSERT(fields.size() == aligns_.size());
  rows_.push_back(std::move(fields));
}

std::vector<size_t> TextTable::column_widths() const {
  std::vector<size_t> widths(aligns_.size());
  for (const auto& row : rows_) {
    for (size_t column = 0; column < widths.size(); ++column) {
      widths[column] = std::max(widths[column], display_width(row[column]));
    }
  }
  return widths;
}

size_t TextTable::width() const {
  const std::vector<size_t> widths = column_widths();
  if (widths.empty()) return 0;
  return std::accumulate(widths.begin(), widths.end(), kGap * (widths.size() - 1));
}

std::string TextTable::text(TextForm form) const {
  if (form == TextForm::kMarkdown) return markdown();
  const std::vector<size_t> widths = column_widths();
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t column = 0; column < widths.size(); ++column) {
      if (column != 0) line.append(kGap, ' ');
      const std::string padding(widths[column] - display_width(row[column]), ' ');
      line += aligns_[column] == Align::kLeft ? row[column] + padding : padding + row[column];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

std::string TextTable::markdown() const {
  std::string text;
  for (const auto& row : rows_) {
    for (const std::string& field : row) text += fmt::format("| {} ", cell(field));
    text += "|\n";
    if (&row != &rows_.front()) continue;
    for (const Align align : aligns_) text += align == Align::kLeft ? "| --- " : "| ---: ";
    text += "|\n";
  }
  return text;
}

std::string heading(std::string_view text, TextForm form) {
  return form == TextForm::kMarkdown ? fmt::format("### {}\n\n", text) : fmt::format("{}\n", text);
}

std::string remark(std::string_view head, std::string_view text, TextForm form) {
  if (form == TextForm::kMarkdown) return fmt::format("\n{}{}\n", head, text);
  return wrapped(head, text, head.size());
}

std::string verbatim(std::string_view text, TextForm form) {
  return form == TextForm::kMarkdown ? fmt::format("```\n{}```\n", text) : std::string(text);
}

}  // namespace lockstep::results
