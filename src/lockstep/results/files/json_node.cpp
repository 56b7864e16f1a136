#include "lockstep/results/files/json_node.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"

namespace lockstep::results {
namespace {

using nlohmann::json;

/// A value as an error message shows it.
std::string shown(const json* value) {
  if (value == nullptr || value->is_null()) return "missing";
  if (value->is_object()) return "an object";
  if (value->is_array()) return fmt::format("a list of {}", value->size());
  constexpr size_t kLongest = 60;
  std::string text = value->dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

}  // namespace

void JsonNode::refuse(std::string_view expected) const {
  throw Error(fmt::format("'{}': {} is {}, expected {}", file_, path_.empty() ? "the file's content" : path_,
                          shown(value_), expected),
              "The file was changed, or another program wrote it; docs/json.md describes every key.");
}

bool JsonNode::missing() const {
  return value_ == nullptr || value_->is_null();
}

JsonNode JsonNode::operator[](std::string_view key) const {
  if (missing() || !value_->is_object()) refuse("an object");
  const auto found = value_->find(key);
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
  return value_->get<std::string>();
}

std::vector<std::string> JsonNode::texts() const {
  std::vector<std::string> all;
  for (const JsonNode& element : elements()) all.push_back(element.text());
  return all;
}

double JsonNode::number() const {
  if (missing() || !value_->is_number()) refuse("a number");
  return value_->get<double>();
}

std::vector<double> JsonNode::numbers() const {
  if (missing() || !value_->is_array()) refuse("a list of numbers");
  std::vector<double> all;
  all.reserve(value_->size());
  // Not by elements(): there are many, and the way to each is wanted only for the one that does not fit.
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
  if (value_->is_number_unsigned() && value_->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
    refuse_range();
  const auto value = value_->get<int64_t>();
  if (value < least || value > most) refuse_range();
  return value;
}

int64_t JsonNode::whole_or(int64_t otherwise) const {
  return missing() ? otherwise
                   : whole(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
}

bool JsonNode::flag() const {
  if (missing() || !value_->is_boolean()) refuse("true or false");
  return value_->get<bool>();
}

}  // namespace lockstep::results
