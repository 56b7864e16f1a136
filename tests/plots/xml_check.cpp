#include "plots/xml_check.h"

#include <algorithm>
#include <set>
#include <vector>

#include "lockstep/base/plain_text.h"

namespace lockstep::plots {
namespace {

class Checker {
 public:
  explicit Checker(std::string_view text) : text_(text) {}

  std::string fault() {
    for (size_t at = 0; at < text_.size();) {
      const size_t begin = at;
      const char32_t point = next_code_point(text_, at);
      const bool control = point < 0x20 && point != U'\n';
      if (control || (point == 0xFFFD && text_.substr(begin, 3) != "\xEF\xBF\xBD"))
        return at_byte("a byte that is no text", begin);
    }
    while (at_ < text_.size() && fault_.empty()) {
      if (text_[at_] == '<') {
        tag();
      } else {
        character_data("<");
      }
    }
    if (fault_.empty() && !open_.empty()) fault_ = "<" + open_.back() + "> is not closed";
    return fault_;
  }

 private:
  std::string_view rest() const { return text_.substr(std::min(at_, text_.size())); }

  static std::string at_byte(const std::string& what, size_t at) {
    return what + " at byte " + std::to_string(at);
  }

  /// Text up to one of `ends`; entities must be known, and there is no '<'.
  std::string character_data(std::string_view ends) {
    const size_t begin = at_;
    while (at_ < text_.size() && ends.find(text_[at_]) == std::string_view::npos) {
      if (text_[at_] == '<') fault_ = at_byte("'<' inside of text", at_);
      if (text_[at_] == '&') {
        bool known = false;
        for (std::string_view entity : {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"})
          known |= rest().starts_with(entity);
        if (!known) fault_ = at_byte("an unknown entity", at_);
      }
      ++at_;
    }
    return std::string(text_.substr(begin, at_ - begin));
  }

  std::string name() {
    const size_t begin = at_;
    while (at_ < text_.size() && (isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '-'))
      ++at_;
    if (at_ == begin) fault_ = at_byte("a missing name", at_);
    return std::string(text_.substr(begin, at_ - begin));
  }

  void tag() {
    ++at_;
    if (rest().starts_with('/')) {
      ++at_;
      const std::string closed = name();
      if (open_.empty() || open_.back() != closed) fault_ = at_byte("</" + closed + "> closes nothing", at_);
      if (!open_.empty()) open_.pop_back();
      expect('>');
      return;
    }
    const std::string opened = name();
    std::set<std::string> attributes;
    while (fault_.empty() && at_ < text_.size() && text_[at_] == ' ') {
      ++at_;
      const std::string attribute = name();
      if (!attributes.insert(attribute).second) fault_ = at_byte("a second attribute " + attribute, at_);
      expect('=');
      expect('"');
      const std::string value = character_data("\"");
      expect('"');
      if (attribute == "id" && !ids_.insert(value).second) fault_ = "a second id " + value;
    }
    if (rest().starts_with('/')) {
      ++at_;
    } else {
      open_.push_back(opened);
    }
    expect('>');
  }

  void expect(char c) {
    if (fault_.empty() && (at_ >= text_.size() || text_[at_] != c))
      fault_ = at_byte(std::string("no '") + c + "'", at_);
    if (at_ < text_.size()) ++at_;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string fault_;
  std::vector<std::string> open_;
  std::set<std::string> ids_;
};

}  // namespace

std::string xml_fault(std::string_view text) {
  return Checker(text).fault();
}

std::vector<std::string> drawings_in(const std::string& page) {
  std::vector<std::string> drawings;
  for (size_t begin = page.find("<svg "); begin != std::string::npos; begin = page.find("<svg ", begin + 1)) {
    drawings.push_back(page.substr(begin, page.find("</svg>", begin) + 6 - begin));
  }
  return drawings;
}

}  // namespace lockstep::plots
