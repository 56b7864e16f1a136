#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/plots/page.h"
#include "lockstep/plots/text.h"

namespace lockstep::plots {
namespace {

using results::Cell;
using results::Table;

/// More columns than this need small print on paper.
constexpr size_t kMany = 14;

/// Numbers are aligned at their right end by the class "n".
std::string kind_class(const Table::Column& column) {
  return column.kind == Table::Kind::kNumber ? " class=\"n\"" : "";
}

/// A cell; its share of a whole is a bar that the style sheet draws from the variable --v.
std::string cell_markup(const Table::Column& column, const Cell& cell, bool first) {
  const std::string text = cell.text == results::kNoValue ? std::string(kMissing) : escape(cell.text);
  if (first) return fmt::format("<th scope=\"row\"{}>{}</th>", kind_class(column), text);
  if (!cell.share || !std::isfinite(*cell.share))
    return fmt::format("<td{}>{}</td>", kind_class(column), text);
  return fmt::format("<td class=\"n bar\" style=\"--v:{}%\">{}</td>",
                     coordinate(std::clamp(*cell.share, 0.0, 1.0) * 100), text);
}

/// The box of a table, not closed yet: inside of it the table scrolls sideways where the window is too
/// narrow.
std::string table_markup(const Table& table, const std::string& caption, size_t most_rows) {
  std::string text = fmt::format(
      "<div class=\"table{1}\"><h3>{0}</h3>\n<div class=\"scroll\" role=\"region\" aria-label=\"{0}\" "
      "tabindex=\"0\">"
      "<table aria-label=\"{0}\">\n<thead><tr>",
      escape(caption), table.columns.size() > kMany ? " many" : "");
  for (const Table::Column& column : table.columns)
    text += fmt::format("<th scope=\"col\"{}>{}</th>", kind_class(column), escape(column.head));
  text += "</tr></thead>\n<tbody>\n";
  for (size_t row = 0; row < std::min(most_rows, table.rows.size()); ++row) {
    text += "<tr>";
    for (size_t i = 0; i < table.columns.size(); ++i)
      text += cell_markup(table.columns[i], table.rows[row][i], i == 0);
    text += "</tr>\n";
  }
  // Ends the table and its scrolling part; the box stays open for remarks.
  text += "</tbody></table></div>\n";
  if (table.rows.size() > most_rows) {
    text += fmt::format("<p class=\"note\">{} of {} rows are shown; the file has all of them.</p>\n",
                        count_text(most_rows), count_text(table.rows.size()));
  }
  return text;
}

/// Writes blocks one by one. A heading becomes the caption of the table below it, or stands above
/// preformatted lines; remarks below a table stand in its box.
class HtmlWriter {
 public:
  explicit HtmlWriter(size_t most_rows) : most_rows_(most_rows) {}

  void operator()(const results::Heading& heading) {
    close_box();
    caption_ = heading.text;
  }
  void operator()(const Table& table) {
    close_box();
    markup_ += table_markup(table, std::exchange(caption_, ""), most_rows_);
    in_box_ = true;
  }
  /// A remark outside of a table's box is a paragraph of the page.
  void operator()(const results::Remark& remark) {
    markup_ += fmt::format("<p class=\"{}\">{}{}</p>\n", in_box_ ? "note" : "lead", escape(remark.lead),
                           prose(remark.text));
  }
  void operator()(const results::List& list) {
    close_box();
    markup_ += "<ul class=\"findings\">\n";
    for (const std::string& item : list.items) markup_ += fmt::format("<li>{}</li>\n", prose(item));
    markup_ += "</ul>\n";
  }
  void operator()(const results::Preformatted& lines) {
    close_box();
    if (!caption_.empty()) markup_ += fmt::format("<h3>{}</h3>\n", escape(std::exchange(caption_, "")));
    markup_ += fmt::format("<pre class=\"scroll\" tabindex=\"0\">{}</pre>\n", escape_lines(lines.text));
  }

  std::string markup() && {
    close_box();
    return std::move(markup_);
  }

 private:
  void close_box() {
    if (std::exchange(in_box_, false)) markup_ += "</div>\n";
  }

  size_t most_rows_;
  std::string caption_;
  std::string markup_;
  bool in_box_ = false;
};

}  // namespace

std::string prose(std::string_view text) {
  std::string out;
  bool code = false;
  for (size_t at = 0; at <= text.size();) {
    const size_t quote = text.find('`', at);
    // A quote that nothing closes is text.
    const bool pairs =
        quote != std::string_view::npos && (code || text.find('`', quote + 1) != std::string_view::npos);
    const size_t end = pairs ? quote : text.size();
    out += escape(text.substr(at, end - at));
    if (pairs) {
      code = !code;
      out += code ? "<code>" : "</code>";
    }
    at = end + 1;
  }
  return out;
}

std::string to_html(const results::Document& document, size_t most_rows) {
  HtmlWriter writer(most_rows);
  for (const results::Block& block : document.blocks()) {
    std::visit([&](const auto& one) { writer(one); }, block);
  }
  return std::move(writer).markup();
}

}  // namespace lockstep::plots
