#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace lockstep {

/// A value in a JSON file that somebody else may have written, with the way to it: every conversion that does
/// not fit throws an Error that names the file, the key and what was expected there. null counts as missing.
/// Points into a document that outlives it.
class JsonNode {
 public:
  JsonNode(const nlohmann::json& document, std::string_view file) : value_(&document), file_(file) {}

  bool missing() const;

  /// The member of an object; throws for what is no object, a missing member is a missing node.
  JsonNode operator[](std::string_view key) const;
  /// The elements of a list. Throws for what is missing or no list.
  std::vector<JsonNode> elements() const;

  /// As plain_text() makes it: it may go to a terminal or into a page.
  std::string text() const;
  /// As printable() makes it, for a terminal: line ends and tabs stay.
  std::string lines() const;
  std::string text_or(std::string_view otherwise) const {
    return missing() ? std::string(otherwise) : text();
  }

  double number() const;
  double number_or(double otherwise) const { return missing() ? otherwise : number(); }
  /// A list of numbers.
  std::vector<double> numbers() const;

  int64_t whole(int64_t least, int64_t most) const;
  /// `least` to what an int holds.
  int count(int least) const { return static_cast<int>(whole(least, std::numeric_limits<int>::max())); }

  bool flag() const;

  /// Throws the Error: "'a.json': lockstep.runs[2].ranks is "two", expected a whole number".
  [[noreturn]] void refuse(std::string_view expected) const;

 private:
  JsonNode(const nlohmann::json* value, std::string_view file, std::string path)
      : value_(value), file_(file), path_(std::move(path)) {}

  const nlohmann::json* value_;
  std::string_view file_;
  std::string path_;
};

/// The CBOR that a rank has sent. Throws Error for any other bytes.
nlohmann::json parse_bytes(std::string_view bytes);

/// JSON text of somebody else's file. Throws Error that names `name`, with `advice` where the text is none:
/// for what is empty, cut off, no JSON, or holds what is no number.
nlohmann::json parse_json(std::string_view text, std::string_view name,
                          std::string_view advice = "Give a file that lockstep bench wrote with --json.");

}  // namespace lockstep
