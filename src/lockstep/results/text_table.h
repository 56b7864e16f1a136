#pragma once

#include <string>
#include <vector>

namespace lockstep::results {

/// Rows of text in columns as wide as they need to be, two spaces apart.
class TextTable {
 public:
  enum class Align { kLeft, kRight };

  /// `heads`: one per column.
  void add_column(std::string head, Align align = Align::kRight);

  /// One field per column.
  void add_row(std::vector<std::string> fields);

  /// Ends with a newline; no line ends with spaces.
  std::string text() const;

 private:
  std::vector<Align> aligns_;
  std::vector<std::vector<std::string>> rows_{{}};
};

}  // namespace lockstep::results
