#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep::plots {

/// A table of a page. All text is escaped here.
class HtmlTable {
 public:
  enum class Kind { kText, kNumber };

  explicit HtmlTable(std::string caption) : caption_(std::move(caption)) {}

  void add_column(std::string head, Kind kind = Kind::kNumber);
  /// One field per column; `shares` may give fields a bar of that share of the cell behind the number.
  void add_row(std::vector<std::string> fields, std::vector<std::optional<double>> shares = {});

  bool empty() const { return rows_.empty(); }
  /// Inside of a box that scrolls sideways where the window is too narrow; at most `most` rows, with a line
  /// that says how many there are beside them.
  std::string markup(size_t most = 200) const;

 private:
  struct Row {
    std::vector<std::string> fields;
    std::vector<std::optional<double>> shares;
  };

  std::string caption_;
  std::vector<std::string> heads_;
  std::vector<Kind> kinds_;
  std::vector<Row> rows_;
};

}  // namespace lockstep::plots
