#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::results {

/// What text is for: a terminal, or a page in GitHub's Markdown.
enum class TextForm { kTerminal, kMarkdown };

/// Rows of text in columns as wide as they need to be, two spaces apart.
class TextTable {
 public:
  enum class Align { kLeft, kRight };

  /// `heads`: one per column.
  void add_column(std::string head, Align align = Align::kRight);

  /// One field per column.
  void add_row(std::vector<std::string> fields);

  /// Columns of the widest line on a terminal.
  size_t width() const;

  /// Ends with a newline; on a terminal no line ends with spaces.
  std::string text(TextForm form = TextForm::kTerminal) const;

 private:
  std::vector<size_t> column_widths() const;
  std::string markdown() const;

  std::vector<Align> aligns_;
  std::vector<std::vector<std::string>> rows_{{}};
};

/// Characters of UTF-8 text, which is how many columns it takes as long as it has none of double width.
size_t display_width(std::string_view text);

/// A line of its own above a table; a heading in Markdown.
std::string heading(std::string_view text, TextForm form);

/// Text around a table: on a terminal `head` and then `text`, wrapped at 100 columns and indented below the
/// head, in Markdown a paragraph.
std::string remark(std::string_view head, std::string_view text, TextForm form);

/// Text whose columns must stay as they are; a block of code in Markdown.
std::string verbatim(std::string_view text, TextForm form);

}  // namespace lockstep::results
