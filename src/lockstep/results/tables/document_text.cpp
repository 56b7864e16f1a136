#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "lockstep/results/tables/document.h"

namespace lockstep::results {
namespace {

constexpr size_t kGap = 2;
constexpr std::string_view kRule = "| ";
constexpr std::string_view kUnbreakable = "\u00A0";

constexpr std::string_view kBold = "\x1b[1m", kRed = "\x1b[1;31m", kGreen = "\x1b[32m", kYellow = "\x1b[33m",
                           kPlain = "\x1b[0m";

using Lines = std::vector<std::vector<std::string>>;

/// The shares of a row, in place of its values.
std::vector<std::string> share_line(const std::vector<Cell>& row) {
  std::vector<std::string> line;
  for (const Cell& cell : row) {
    line.push_back(!cell.share                  ? ""
                   : std::isfinite(*cell.share) ? fmt::format("{:.1f} %", 100 * *cell.share)
                                                : kNoValue);
  }
  return line;
}

/// Bytes stand in for columns: a long cell is prose, for which the difference does not matter.
bool is_too_long(const Table& table, const std::vector<Cell>& row) {
  return std::ranges::any_of(row, [&](const Cell& cell) { return cell.text.size() > table.longest_cell; });
}

/// Heads first, then rows and their shares.
Lines lines_of(const Table& table, bool short_heads, const TextForm& form) {
  Lines lines(1);
  for (const Table::Column& column : table.columns) {
    lines[0].push_back(short_heads && !column.short_head.empty() ? column.short_head : column.head);
  }
  for (const std::vector<Cell>& row : table.rows) {
    if (!form.markdown && is_too_long(table, row)) continue;
    std::vector<std::string>& line = lines.emplace_back();
    for (const Cell& cell : row) line.push_back(cell.text);
    if (table.shares_below) lines.push_back(share_line(row));
  }
  return lines;
}

/// The width of each column in characters, of heads and cells alike.
std::vector<size_t> widths_of(const Lines& lines) {
  std::vector<size_t> widths(lines[0].size());
  for (const auto& line : lines) {
    for (size_t column = 0; column < widths.size(); ++column) {
      widths[column] = std::max(widths[column], display_width(line[column]));
    }
  }
  return widths;
}

/// Whether the lines of a table are longer than those of the form.
bool is_too_wide(const Table& table, const Lines& lines, const TextForm& form) {
  const std::vector<size_t> widths = widths_of(lines);
  size_t width =
      std::accumulate(widths.begin(), widths.end(), kGap * (std::max<size_t>(1, widths.size()) - 1));
  if (!form.markdown) {
    width +=
        kRule.size() * static_cast<size_t>(std::ranges::count(table.columns, true, &Table::Column::ruled));
  }
  return width > form.width;
}

/// Lines with short heads where long ones make the table too wide.
Lines fitted_lines(const Table& table, const TextForm& form) {
  Lines lines = lines_of(table, false, form);
  return is_too_wide(table, lines, form) ? lines_of(table, true, form) : lines;
}

/// The table without the columns that a narrow screen has no room for.
Table narrowed(Table table) {
  for (size_t i = table.columns.size(); i-- > 0;) {
    if (!table.columns[i].expendable) continue;
    table.columns.erase(table.columns.begin() + static_cast<std::ptrdiff_t>(i));
    for (std::vector<Cell>& row : table.rows) row.erase(row.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return table;
}

/// Colors a cell, padded already, that is a verdict or in doubt.
std::string painted(std::string field, std::string_view cell) {
  const bool bad = cell.ends_with(" ?") || cell.starts_with("slower");
  if (!bad && !cell.starts_with("faster")) return field;
  return fmt::format("{}{}{}", bad ? kRed : kGreen, field, kPlain);
}

/// A row that is too long for the table: a line for the cells without a head, then one for each with a head.
std::string long_row_text(const Table& table, const std::vector<Cell>& row, const TextForm& form) {
  std::string names, values;
  for (size_t i = 0; i < row.size(); ++i) {
    if (!table.columns[i].head.empty()) {
      const std::string lead = fmt::format("     {}  ", table.columns[i].head);
      values += wrapped(lead, row[i].text, lead.size(), form.width);
    } else if (values.empty()) {
      names += fmt::format("{}{:1}", names.empty() ? "" : "  ", row[i].text);
    }
  }
  return names + '\n' + values;
}

/// Aligned columns; rows that are too long for one follow below.
std::string terminal_table(const Table& whole, const TextForm& form) {
  if (!whole.terminal_text.empty() && (!form.screen || display_width(whole.terminal_text.substr(
                                                           0, whole.terminal_text.find('\n'))) <= form.width))
    return whole.terminal_text;
  const bool narrow = form.screen && is_too_wide(whole, fitted_lines(whole, form), form);
  const Table table = narrow ? narrowed(whole) : whole;
  const Lines lines = fitted_lines(table, form);
  const std::vector<size_t> widths = widths_of(lines);
  std::string text;
  for (const auto& fields : lines) {
    std::string line;
    for (size_t i = 0; i < widths.size(); ++i) {
      if (i != 0) line.append(kGap, ' ');
      if (table.columns[i].ruled) line += kRule;
      const std::string padding(widths[i] - display_width(fields[i]), ' ');
      std::string field =
          table.columns[i].kind == Table::Kind::kText ? fields[i] + padding : padding + fields[i];
      line += form.colors ? painted(std::move(field), fields[i]) : field;
    }
    // Trailing spaces would make a copied table differ from a file that an editor has saved.
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  for (const std::vector<Cell>& row : table.rows) {
    if (is_too_long(table, row)) text += long_row_text(table, row, form);
  }
  return text;
}

/// Escapes the characters that mean something to Markdown in a line.
std::string escaped_markdown(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|' || c == '*' || c == '<' || c == '[' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

/// Heads, the line of dashes that aligns the columns (`---:` to the right), then the rows.
std::string markdown_table(const Table& table) {
  const Lines lines = fitted_lines(table, TextForm::kMarkdown);
  std::string text;
  for (const auto& fields : lines) {
    for (const std::string& field : fields) text += fmt::format("| {} ", escaped_markdown(field));
    text += "|\n";
    if (&fields != &lines.front()) continue;
    for (const Table::Column& column : table.columns)
      text += column.kind == Table::Kind::kText ? "| --- " : "| ---: ";
    text += "|\n";
  }
  return text;
}

template <typename Kind>
bool is(const Block* block) {
  return block != nullptr && std::holds_alternative<Kind>(*block);
}

/// Writes blocks one by one; the blank lines between two depend on both.
class TextWriter {
 public:
  explicit TextWriter(const TextForm& form) : form_(form) {}

  void write(const Block& block) {
    std::visit([this](const auto& one) { add(one); }, block);
    previous_ = &block;
  }

  std::string text() && {
    // Lines are broken by now; plain spaces are easier to search and to copy.
    for (size_t at = text_.find(kUnbreakable); at != std::string::npos; at = text_.find(kUnbreakable, at))
      text_.replace(at, kUnbreakable.size(), " ");
    return std::move(text_);
  }

 private:
  void add(const Heading& heading) {
    if (previous_ != nullptr) text_ += '\n';
    text_ += form_.markdown ? fmt::format("### {}\n\n", escaped_markdown(heading.text))
             : form_.colors ? fmt::format("{}{}{}\n", kBold, heading.text, kPlain)
                            : heading.text + '\n';
  }

  void add(const Remark& remark) {
    if (remark.apart && previous_ != nullptr) text_ += '\n';
    // A paragraph of Markdown begins after a blank line.
    if (form_.markdown && previous_ != nullptr) text_ += '\n';
    text_ += form_.markdown ? remark.lead + escaped_markdown(remark.text) + '\n'
                            : remark_text(remark.lead, remark.text, form_);
  }

  void add(const List& list) {
    if (form_.markdown) text_ += '\n';
    for (const std::string& item : list.items) {
      text_ += form_.markdown ? fmt::format("- {}\n", escaped_markdown(item))
                              : wrapped("- ", item, 2, form_.width);
    }
  }

  void add(const Table& table) {
    const bool below_heading =
        !form_.markdown && is<Heading>(previous_) && !std::get<Heading>(*previous_).compact;
    if (below_heading || is<Remark>(previous_)) text_ += '\n';
    text_ += form_.markdown ? markdown_table(table) : terminal_table(table, form_);
  }

  void add(const Preformatted& lines) {
    if (is<Preformatted>(previous_)) text_ += '\n';
    text_ += form_.markdown ? fmt::format("```\n{}```\n", lines.text) : lines.text;
  }

  const TextForm& form_;
  const Block* previous_ = nullptr;
  std::string text_;
};

/// "10,231.5"; four digits stay together.
std::string group_thousands(std::string digits) {
  const size_t begin = digits.starts_with('-') ? 1 : 0;
  size_t end = digits.find('.');
  if (end == std::string::npos) end = digits.size();
  if (end - begin <= 4) return digits;
  for (size_t at = end - 3; at > begin; at = at > begin + 3 ? at - 3 : begin) digits.insert(at, ",");
  return digits;
}

}  // namespace

std::string to_text(const Document& document, const TextForm& form) {
  TextWriter writer(form);
  for (const Block& block : document.blocks()) writer.write(block);
  return std::move(writer).text();
}

std::string wrapped(std::string_view lead, std::string_view text, size_t indent, size_t width) {
  std::string lines(lead);
  size_t column = lead.size();
  bool first_of_line = true;
  while (!text.empty()) {
    const size_t end = text.find(' ');
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    // A word that is longer than a line stays whole.
    if (!first_of_line && column + 1 + word.size() > width) {
      lines += '\n';
      lines.append(indent, ' ');
      column = indent;
      first_of_line = true;
    }
    if (!first_of_line) lines += ' ';
    column += word.size() + (first_of_line ? 0 : 1);
    lines += word;
    first_of_line = false;
  }
  return lines + '\n';
}

std::string remark_text(std::string_view lead, std::string_view text, const TextForm& form) {
  std::string lines = wrapped(lead, text, lead.size(), form.width);
  if (!form.colors || lead.empty() || lead.front() == ' ') return lines;
  const std::string_view color = lead.starts_with("WARNING")   ? kRed
                                 : lead.starts_with("Warning") ? kYellow
                                                               : kBold;
  return fmt::format("{}{}{}{}", color, lead, kPlain, lines.substr(lead.size()));
}

size_t display_width(std::string_view text) {
  // Continuation bytes of a character are 10xxxxxx.
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

bool positive(const std::optional<double>& value) {
  return value && std::isfinite(*value) && *value > 0;
}

std::string grouped_text(double value, int decimals) {
  if (!std::isfinite(value)) return std::string(kMissing);
  // Beyond this a double has no digits for the fraction, and no reader counts the commas.
  if (std::abs(value) >= 1e15) return fmt::format("{:.3g}", value);
  return group_thousands(fmt::format("{:.{}f}", value, decimals));
}

std::string number_text(const std::optional<double>& value) {
  if (!value || !std::isfinite(*value)) return std::string(kMissing);
  const double size = std::abs(*value);
  if (size == 0) return "0";
  if (size < 1e-4) return fmt::format("{:.2e}", *value);
  if (size < 0.1) return fmt::format("{:.3g}", *value);
  // Bounds lie below 10 and 100 by half a digit, or 9.999 would become 10.00 instead of 10.0.
  return grouped_text(*value, size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
}

std::string share_text(const std::optional<double>& share) {
  if (!share || !std::isfinite(*share)) return std::string(kMissing);
  const double percent = *share * 100;
  // The space is U+00A0, which does not break.
  return grouped_text(percent, std::abs(percent) < 9.95 && percent != 0 ? 1 : 0) + "\u00A0%";
}

std::string signed_percent_text(const std::optional<double>& share, int digits) {
  return share && std::isfinite(*share) ? fmt::format("{:+.{}f} %", 100 * *share, digits) : kNoValue;
}

TimeUnit time_unit(double seconds) {
  // Bounds lie half a digit lower, or 999.9 µs would become 1000 µs; a time that is no number gets a unit,
  // too.
  if (!(std::abs(seconds) < 0.9995)) return {"s", 1};
  if (std::abs(seconds) >= 0.9995e-3) return {"ms", 1e3};
  return {"µs", 1e6};
}

std::string time_text(const std::optional<double>& seconds) {
  if (!seconds || !std::isfinite(*seconds)) return std::string(kMissing);
  const TimeUnit unit = time_unit(*seconds);
  return fmt::format("{}\u00A0{}", number_text(*seconds * unit.per_second), unit.name);
}

}  // namespace lockstep::results
