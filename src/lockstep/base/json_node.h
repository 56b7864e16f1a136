#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace lockstep {

/// A value in a JSON file of any origin, with its path: a conversion that does not fit throws an Error that
/// names the file, the key and the expected value. null counts as missing. Points into a document that
/// outlives it.
class JsonNode {
 public:
  JsonNode(const nlohmann::json& document, std::string_view file) : value_(&document), file_(file) {}

  bool missing() const;

  /// The member of an object, or a missing node. Throws unless this is an object.
  JsonNode operator[](std::string_view key) const;
  /// The elements of a list. Throws unless this is a list.
  std::vector<JsonNode> elements() const;

  /// Cleaned by plain_text(), because it may go to a terminal or into a page.
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
  /// From `least` to the largest int.
  int count(int least) const { return static_cast<int>(whole(least, std::numeric_limits<int>::max())); }
  /// A version of the file's format, from 1. Throws for one above `known`, with what to do.
  int version(int known) const;

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

/// A whole number of a parsed text, of 64 bits (one from 2^63 on is negative). json::get would convert any
/// number, and 1e300 without a defined result. Throws nlohmann::json::type_error for anything else.
int64_t whole_number(const nlohmann::json& value);
std::vector<int64_t> whole_numbers(const nlohmann::json& list);

/// The CBOR that a rank has sent. Throws Error for any other bytes.
nlohmann::json parse_bytes(std::string_view bytes);

/// Parses JSON text of any origin. Throws Error that names `name`, with `advice`, for text that is empty, cut
/// off, no JSON, or has a number out of range.
nlohmann::json parse_json(std::string_view text, std::string_view name,
                          std::string_view advice = "Give a file that lockstep bench wrote with --json.");

}  // namespace lockstep
