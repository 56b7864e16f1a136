#include "lockstep/plots/html_table.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "lockstep/plots/markup.h"
#include "lockstep/plots/numbers.h"

namespace lockstep::plots {
namespace {

/// More columns than this need small print on paper.
constexpr size_t kMany = 14;

}  // namespace

void HtmlTable::add_column(std::string head, Kind kind) {
  heads_.push_back(std::move(head));
  kinds_.push_back(kind);
}

void HtmlTable::add_row(std::vector<std::string> fields, std::vector<std::optional<double>> shares) {
  fields.resize(heads_.size());
  shares.resize(heads_.size());
  rows_.push_back({std::move(fields), std::move(shares)});
}

std::string HtmlTable::markup(size_t most) const {
  std::string text = fmt::format(
      "<div class=\"table{1}\"><h3>{0}</h3>\n<div class=\"scroll\" role=\"region\" aria-label=\"{0}\" "
      "tabindex=\"0\">"
      "<table aria-label=\"{0}\">\n<thead><tr>",
      escape(caption_), heads_.size() > kMany ? " many" : "");
  const auto kind_class = [&](size_t column) {
    return kinds_[column] == Kind::kNumber ? " class=\"n\"" : "";
  };
  for (size_t i = 0; i < heads_.size(); ++i)
    text += fmt::format("<th scope=\"col\"{}>{}</th>", kind_class(i), escape(heads_[i]));
  text += "</tr></thead>\n<tbody>\n";
  for (size_t r = 0; r < std::min(most, rows_.size()); ++r) {
    text += "<tr>";
    for (size_t i = 0; i < heads_.size(); ++i) {
      const std::optional<double>& share = rows_[r].shares[i];
      const std::string field = escape(rows_[r].fields[i]);
      if (i == 0) {
        text += fmt::format("<th scope=\"row\"{}>{}</th>", kind_class(i), field);
      } else if (share && std::isfinite(*share)) {
        text += fmt::format("<td class=\"n bar\" style=\"--v:{}%\">{}</td>",
                            coordinate(std::clamp(*share, 0.0, 1.0) * 100), field);
      } else {
        text += fmt::format("<td{}>{}</td>", kind_class(i), field);
      }
    }
    text += "</tr>\n";
  }
  text += "</tbody></table></div></div>\n";
  if (rows_.size() > most) {
    text += fmt::format("<p class=\"note\">{} of {} rows are shown; the file has all of them.</p>\n",
                        count_text(most), count_text(rows_.size()));
  }
  return text;
}

}  // namespace lockstep::plots
