#include "lockstep/plots/csv_text.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::plots {
namespace {

class Parser {
 public:
  Parser(std::string_view text, const std::string& name) : text_(text), name_(name) {
    if (text_.starts_with("\xEF\xBB\xBF")) text_.remove_prefix(3);
  }

  std::vector<CsvLine> parse() {
    std::vector<CsvLine> lines;
    while (at_ < text_.size()) {
      CsvLine record = parse_record();
      if (record.fields.size() > 1 || !record.fields[0].empty()) lines.push_back(std::move(record));
    }
    return lines;
  }

 private:
  CsvLine parse_record() {
    CsvLine record{line_, {}};
    while (true) {
      record.fields.push_back(at_ < text_.size() && text_[at_] == '"' ? quoted_field() : plain_field());
      if (at_ < text_.size() && text_[at_] == ',') {
        ++at_;
        continue;
      }
      end_of_line();
      return record;
    }
  }

  std::string plain_field() {
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != '\n') ++at_;
    size_t end = at_;
    while (end > begin && (text_[end - 1] == '\r' || text_[end - 1] == ' ')) --end;
    size_t first = begin;
    while (first < end && text_[first] == ' ') ++first;
    return std::string(text_.substr(first, end - first));
  }

  std::string quoted_field() {
    const int begin_line = line_;
    std::string field;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '"') {
        if (at_ + 1 < text_.size() && text_[at_ + 1] == '"') {
          ++at_;
        } else {
          ++at_;
          return field;
        }
      }
      if (text_[at_] == '\n') ++line_;
      field += text_[at_];
    }
    throw Error(fmt::format("{}, line {}: a quoted field does not end", name_, begin_line),
                "Close the quote, or double a quote that belongs to the text.");
  }

  void end_of_line() {
    if (at_ < text_.size() && text_[at_] == '\r') ++at_;
    if (at_ >= text_.size()) return;
    if (text_[at_] != '\n') {
      throw Error(fmt::format("{}, line {}: text after a closing quote", name_, line_),
                  "Put a comma or the end of the line there.");
    }
    ++at_;
    ++line_;
  }

  std::string_view text_;
  const std::string& name_;
  size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

std::vector<CsvLine> parse_csv(std::string_view text, const std::string& name) {
  return Parser(text, name).parse();
}

}  // namespace lockstep::plots
