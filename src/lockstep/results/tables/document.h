#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/base/assert.h"

namespace lockstep::results {

/// Text of a cell without a value.
inline constexpr const char* kNoValue = "-";

/// A field of a table. The code that fills the table formats its numbers, because the digits of a column
/// depend on all of its rows.
struct Cell {
  Cell(std::string text_of_cell, std::optional<double> share_of_whole = {})
      : text(std::move(text_of_cell)), share(share_of_whole) {}
  Cell(const char* text_of_cell) : text(text_of_cell) {}

  std::string text;
  /// Value as a share of its whole, 0 to 1: a bar behind the number on a page.
  std::optional<double> share;
};

struct Table {
  /// Numbers are aligned at their right end, text at its left end.
  enum class Kind { kNumber, kText };

  struct Column {
    Column(std::string head_of_column, Kind kind_of_column = Kind::kNumber)
        : head(std::move(head_of_column)), kind(kind_of_column) {}
    Column(const char* head_of_column, Kind kind_of_column = Kind::kNumber)
        : Column(std::string(head_of_column), kind_of_column) {}

    std::string head;
    Kind kind;
    /// Replaces `head` in text when the table is wider than a line otherwise.
    std::string short_head = {};
    /// Left out where that is not enough for a screen.
    bool expendable = false;
    /// Separates the column from those before it, on a terminal.
    bool ruled = false;
  };

  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
  /// Text forms write the shares of each row as a row of their own below it.
  bool shares_below = false;
  /// On a terminal, rows with a longer cell follow the table, one line per cell with a head.
  size_t longest_cell = std::string::npos;
  /// Replaces the whole table on a terminal that is wide enough: the layout of another tool. Empty: none.
  std::string terminal_text = {};

  void add_column(Column column) {
    LOCKSTEP_ASSERT(rows.empty());
    columns.push_back(std::move(column));
  }
  void add_row(std::vector<Cell> cells) {
    LOCKSTEP_ASSERT(cells.size() == columns.size());
    rows.push_back(std::move(cells));
  }
};

inline constexpr Table::Kind kText = Table::Kind::kText;

/// Title of the blocks that follow.
struct Heading {
  std::string text;
  /// No blank line between heading and table on a terminal.
  bool compact = false;
};

/// Text around tables. On a terminal it is wrapped and indented below `lead` ("Warning: ").
struct Remark {
  std::string lead;
  std::string text;
  /// A blank line separates it from the block above.
  bool apart = false;
};

/// Sentences, each a point of its own.
struct List {
  std::vector<std::string> items;
};

/// Lines whose columns must stay as they are.
struct Preformatted {
  std::string text;
};

using Block = std::variant<Heading, Remark, List, Table, Preformatted>;

/// Output for a reader, independent of its form: built once, then written for a terminal or as Markdown by
/// to_text(), or as HTML by a report page.
class Document {
 public:
  Document() = default;
  template <typename OneBlock>
  requires std::constructible_from<Block, OneBlock> Document(OneBlock&& block)
      : blocks_{Block(std::forward<OneBlock>(block))} {}

  void add(Block block) { blocks_.push_back(std::move(block)); }
  void append(Document other) {
    for (Block& block : other.blocks_) blocks_.push_back(std::move(block));
  }

  bool empty() const { return blocks_.empty(); }
  const std::vector<Block>& blocks() const { return blocks_; }

 private:
  std::vector<Block> blocks_;
};

/// Medium of a text: GitHub's Markdown, or what a terminal, a pipe or a file takes.
struct TextForm {
  bool markdown = false;
  /// Lines are broken here.
  size_t width = 100;
  /// Somebody looks at it on a terminal: tables fit its width, the answer comes first.
  bool screen = false;
  /// Bold heads, red warnings.
  bool colors = false;

  static const TextForm kMarkdown;
};

inline constexpr TextForm TextForm::kMarkdown{.markdown = true};

/// The document as text. Ends with a newline unless the document is empty; no line of a terminal's table ends
/// with spaces.
std::string to_text(const Document& document, const TextForm& form = {});

/// `text` broken between words into lines of at most `width` characters, behind `lead`; further lines are
/// indented by `indent` spaces. Ends with a newline.
std::string wrapped(std::string_view lead, std::string_view text, size_t indent, size_t width = 100);

/// A remark as lines, its lead in color where the form has colors.
std::string remark_text(std::string_view lead, std::string_view text, const TextForm& form);

/// Columns that UTF-8 text takes on a terminal, provided that no character has double width.
size_t display_width(std::string_view text);

/// Text for a number that is missing or not finite.
inline constexpr std::string_view kMissing = "–";

/// Finite and above zero; a damaged file may hold anything.
bool positive(const std::optional<double>& value);

/// Three or four significant digits: "41.5", "412", "4231", "10,231", "0.0123".
std::string number_text(const std::optional<double>& value);

/// Fixed number of decimals, with thousands separators.
std::string grouped_text(double value, int decimals);

/// "71 %", or with one decimal below 10, "3.4 %"; the space does not break.
std::string share_text(const std::optional<double>& share);

/// "+1.2 %", or "-".
std::string signed_percent_text(const std::optional<double>& share, int digits = 1);

/// Unit in which times around `seconds` read well.
struct TimeUnit {
  std::string_view name;
  double per_second;
};
TimeUnit time_unit(double seconds);

/// "103 ms", "1.20 s".
std::string time_text(const std::optional<double>& seconds);

}  // namespace lockstep::results
