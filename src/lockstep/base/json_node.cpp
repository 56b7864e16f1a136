#include "lockstep/base/json_node.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/json_codec.h"
#include "lockstep/base/plain_text.h"

namespace lockstep {
namespace {

using nlohmann::json;

/// A value as an error message shows it.
std::string shown(const json* value) {
  if (value == nullptr || value->is_null()) return "missing";
  if (value->is_object()) return "an object";
  if (value->is_array()) return fmt::format("a list of {}", value->size());
  // A long text or number would bury the message.
  constexpr size_t kLongest = 60;
  std::string text = value->dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

/// Python writes these where a number is none; JSON has no such words.
void refuse_non_numbers(std::string_view text, size_t at, std::string_view name) {
  for (const std::string_view word : {"NaN", "Infinity"}) {
    if (!text.substr(std::min(at, text.size())).starts_with(word)) continue;
    throw Error(
        fmt::format("'{}': byte {} is {}, which is no number", name, at + 1, word),
        "Whatever wrote it measured nothing there: measure again, or take that result out of the file.");
  }
}

/// One line without spaces. Invalid UTF-8 in a host's or file's name must not end the writing of a result.
std::string one_line_text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Lists of plain values: the samples of one step stay together.
bool fits_one_line(const Json& value) {
  if (value.empty() || !value.is_structured()) return true;
  return value.is_array() &&
         std::ranges::none_of(value, [](const Json& element) { return element.is_structured(); });
}

void append(std::string& text, const Json& value, size_t depth) {
  const bool one_line = fits_one_line(value);
  if (one_line && !value.is_array()) {
    text += one_line_text(value);
    return;
  }
  // dump writes no space after a comma; a list of numbers reads better with one.
  const std::string separator = one_line ? ", " : ",\n" + std::string(2 * (depth + 1), ' ');
  text += value.is_object() ? '{' : '[';
  if (!one_line) text += separator.substr(1);
  bool first = true;
  for (const auto& item : value.items()) {
    if (!std::exchange(first, false)) text += separator;
    if (value.is_object()) text.append(one_line_text(item.key())).append(": ");
    append(text, item.value(), depth + 1);
  }
  if (!one_line) text.append("\n").append(2 * depth, ' ');
  text += value.is_object() ? '}' : ']';
}

}  // namespace

void JsonNode::refuse(std::string_view expected) const {
  throw Error(fmt::format("'{}': {} is {}, expected {}", file_, path_.empty() ? "the file's content" : path_,
                          shown(value_), expected),
              "The file was changed, or another program wrote it.");
}

bool JsonNode::missing() const {
  return value_ == nullptr || value_->is_null();
}

JsonNode JsonNode::operator[](std::string_view key) const {
  if (missing() || !value_->is_object()) refuse("an object");
  const auto found = value_->find(key);
  // The way grows with the value, "lockstep.runs[2].ranks", for the message of an error.
  return {found == value_->end() ? nullptr : &*found, file_,
          path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key)};
}

std::vector<JsonNode> JsonNode::elements() const {
  if (missing() || !value_->is_array()) refuse("a list");
  std::vector<JsonNode> all;
  all.reserve(value_->size());
  for (size_t i = 0; i < value_->size(); ++i) {
    all.push_back({&(*value_)[i], file_, fmt::format("{}[{}]", path_, i)});
  }
  return all;
}

std::string JsonNode::text() const {
  if (missing() || !value_->is_string()) refuse("a string");
  return plain_text(value_->get_ref<const std::string&>());
}

std::string JsonNode::lines() const {
  if (missing() || !value_->is_string()) refuse("a string");
  return printable(value_->get_ref<const std::string&>());
}

double JsonNode::number() const {
  if (missing() || !value_->is_number()) refuse("a number");
  return value_->get<double>();
}

std::vector<double> JsonNode::numbers() const {
  if (missing() || !value_->is_array()) refuse("a list of numbers");
  std::vector<double> all;
  all.reserve(value_->size());
  // Not by elements(), which would store a path for each of many numbers; only a misfit needs its path.
  for (const json& element : *value_) {
    if (!element.is_number()) {
      const JsonNode wrong(&element, file_, fmt::format("{}[{}]", path_, all.size()));
      wrong.refuse("a number");
    }
    all.push_back(element.get<double>());
  }
  return all;
}

int64_t JsonNode::whole(int64_t least, int64_t most) const {
  const auto refuse_range = [&] { refuse(fmt::format("a whole number from {} to {}", least, most)); };
  if (missing() || !value_->is_number_integer()) refuse("a whole number");
  // get<int64_t> would wrap a larger number to a negative one.
  if (value_->is_number_unsigned() && value_->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
    refuse_range();
  const auto value = value_->get<int64_t>();
  if (value < least || value > most) refuse_range();
  return value;
}

int64_t whole_number(const json& value) {
  return value.get_ref<const json::number_integer_t&>();
}

std::vector<int64_t> whole_numbers(const json& list) {
  std::vector<int64_t> numbers;
  for (const json& one : list.get_ref<const json::array_t&>()) numbers.push_back(whole_number(one));
  return numbers;
}

int JsonNode::version(int known) const {
  const int version = count(1);
  if (version <= known) return version;
  throw Error(fmt::format("'{}': {} is {}; this lockstep reads up to {}", file_, path_, version, known),
              "Use the lockstep that wrote it, or a newer one.");
}

bool JsonNode::flag() const {
  if (missing() || !value_->is_boolean()) refuse("true or false");
  return value_->get<bool>();
}

nlohmann::json parse_bytes(std::string_view bytes) {
  try {
    return nlohmann::json::from_cbor(bytes);
  } catch (const nlohmann::json::exception&) {
    throw Error(fmt::format("another rank sent {} bytes that are no record", bytes.size()));
  }
}

nlohmann::json parse_json(std::string_view text, std::string_view name, std::string_view advice) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  // Left by a run that died before it wrote anything, or by a full disk.
  if (first == std::string_view::npos) {
    throw Error(fmt::format("'{}' is empty", name), "The run that was to write it did not get that far.");
  }
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    // At an unexpected end the parser is one past the last character.
    if ((text[first] == '{' || text[first] == '[') && error.byte > text.size()) {
      throw Error(fmt::format("'{}' is cut off after {} bytes: JSON that does not end", name, text.size()),
                  "Copy it again, or read the .partial file beside it.");
    }
    // The parser counts bytes from 1.
    if (error.byte > 0) refuse_non_numbers(text, error.byte - 1, name);
    throw Error(fmt::format("'{}' is not JSON: byte {} does not fit", name, error.byte), std::string(advice));
  } catch (const nlohmann::json::out_of_range&) {
    throw Error(fmt::format("'{}' holds a number that is too large to be one", name), std::string(advice));
  }
}

std::string json_text(const Json& json) {
  std::string text;
  append(text, json, 0);
  text += '\n';
  return text;
}

}  // namespace lockstep
