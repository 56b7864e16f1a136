#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "lockstep/base/fields.h"
#include "lockstep/base/json_node.h"

namespace lockstep {

/// Keys in the order in which they were set.
using Json = nlohmann::ordered_json;

/// Indented by two spaces, but lists of plain values on one line, so that the samples of a step stay
/// together. Numbers that are not finite become null, invalid UTF-8 is replaced. Ends with a newline.
std::string json_text(const Json& json);

/// A value in JSON and back. The primary template serves structs that describe themselves (base/fields.h).
/// Keeps numbers that are not finite; json_text writes them as null.
template <typename T>
struct JsonCodec;

template <typename T>
Json encode(const T& value) {
  return JsonCodec<T>::encode(value);
}

/// Throws the Error of JsonNode where a value does not fit.
template <typename T>
void decode(const JsonNode& node, T& value, const FieldRule& rule = {}) {
  JsonCodec<T>::decode(node, value, rule);
}

/// The keys of `head`, then those of the value.
template <typename T>
Json encode_after(Json head, const T& value) {
  Json described = encode(value);
  // Moved, because a long run has many samples.
  for (auto& [key, member] : described.items()) head[key] = std::move(member);
  return head;
}

/// The visitor that writes.
class JsonFieldWriter {
 public:
  template <typename T>
  void operator()(const char* key, const T& value, const FieldRule& rule = {}) {
    json_[key] = encode(value);
    if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
      if (rule.nullable && value == T()) json_[key] = nullptr;
    }
  }

  template <typename T>
  void derived(const char* key, const T& value) {
    json_[key] = encode(value);
  }

  template <typename Body>
  void group(const char* key, Body&& body, const FieldRule& = {}) {
    JsonFieldWriter inner;
    body(inner);
    json_[key] = std::move(inner).take();
  }

  Json take() && { return std::move(json_); }

 private:
  Json json_ = Json::object();
};

/// The visitor that reads an object.
class JsonFieldReader {
 public:
  explicit JsonFieldReader(const JsonNode& node) : node_(node) {}

  template <typename T>
  void operator()(const char* key, T& value, const FieldRule& rule = {}) {
    const JsonNode found = node_[key];
    if (!found.missing() || rule.required) {
      decode(found, value, rule);
    } else if constexpr (std::is_same_v<T, double>) {
      if (rule.missing_is_nan) value = std::numeric_limits<double>::quiet_NaN();
    }
  }

  template <typename T>
  void derived(const char*, const T&) {}

  template <typename Body>
  void group(const char* key, Body&& body, const FieldRule& rule = {}) {
    const JsonNode found = node_[key];
    if (found.missing() && !rule.required) return;
    JsonFieldReader inner(found);
    body(inner);
  }

 private:
  const JsonNode& node_;
};

template <typename T>
struct JsonCodec {
  static Json encode(const T& value) {
    JsonFieldWriter writer;
    T::describe(writer, value);
    return std::move(writer).take();
  }
  static void decode(const JsonNode& node, T& value, const FieldRule&) {
    JsonFieldReader reader(node);
    T::describe(reader, value);
  }
};

template <>
struct JsonCodec<bool> {
  static Json encode(bool value) { return value; }
  static void decode(const JsonNode& node, bool& value, const FieldRule&) { value = node.flag(); }
};

template <std::signed_integral T>
struct JsonCodec<T> {
  static Json encode(T value) { return value; }
  static void decode(const JsonNode& node, T& value, const FieldRule& rule) {
    using Limits = std::numeric_limits<T>;
    constexpr int64_t kLeast = std::is_same_v<T, int> ? 0 : int64_t{Limits::min()};
    value = static_cast<T>(node.whole(rule.least.value_or(kLeast), rule.most.value_or(Limits::max())));
  }
};

/// In files as the signed number of the same bits.
template <>
struct JsonCodec<uint64_t> {
  static Json encode(uint64_t value) { return static_cast<int64_t>(value); }
  static void decode(const JsonNode& node, uint64_t& value, const FieldRule& rule) {
    int64_t number = 0;
    JsonCodec<int64_t>::decode(node, number, rule);
    value = static_cast<uint64_t>(number);
  }
};

template <>
struct JsonCodec<double> {
  static Json encode(double value) { return value; }
  static void decode(const JsonNode& node, double& value, const FieldRule&) { value = node.number(); }
};

template <>
struct JsonCodec<std::string> {
  static Json encode(const std::string& value) { return value; }
  static void decode(const JsonNode& node, std::string& value, const FieldRule& rule) {
    value = rule.lines ? node.lines() : node.text();
  }
};

template <typename T>
struct JsonCodec<std::optional<T>> {
  static Json encode(const std::optional<T>& value) {
    return value ? JsonCodec<T>::encode(*value) : Json(nullptr);
  }
  static void decode(const JsonNode& node, std::optional<T>& value, const FieldRule& rule) {
    value.reset();
    if (!node.missing()) JsonCodec<T>::decode(node, value.emplace(), rule);
  }
};

template <typename T>
struct JsonCodec<std::vector<T>> {
  static Json encode(const std::vector<T>& values) {
    Json list = Json::array();
    for (const T& value : values) list.push_back(JsonCodec<T>::encode(value));
    return list;
  }
  static void decode(const JsonNode& node, std::vector<T>& values, const FieldRule& rule) {
    if constexpr (std::is_same_v<T, double>) {
      values = node.numbers();
    } else {
      values.clear();
      for (const JsonNode& element : node.elements())
        JsonCodec<T>::decode(element, values.emplace_back(), rule);
    }
  }
};

/// A value as bytes (CBOR), for sending it from rank to rank, and back. Preserves all numbers exactly, NaN
/// and infinities included.
template <typename T>
std::string to_bytes(const T& value) {
  std::string bytes;
  Json::to_cbor(encode(value), bytes);
  return bytes;
}

/// Throws Error for bytes that to_bytes did not make of a T.
template <typename T>
T from_bytes(std::string_view bytes) {
  const nlohmann::json document = parse_bytes(bytes);
  T value{};
  decode(JsonNode(document, "what a rank sent"), value);
  return value;
}

}  // namespace lockstep
