#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

#include "lockstep/base/fields.h"

namespace lockstep {

template <typename T>
inline constexpr bool kIsOptional = false;
template <typename T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <typename T>
inline constexpr bool kIsList = false;
template <typename T>
inline constexpr bool kIsList<std::vector<T>> = true;

/// The keys of one object in a file.
struct ListedObject {
  /// Places of objects of this kind: "runs[].breakdown".
  std::vector<std::string> places;
  /// Each key and its type, in order.
  std::vector<std::pair<std::string, std::string>> keys;
  std::type_index type;
};

/// The visitor that lists what a file may hold (base/fields.h), for people.
class FieldLister {
 public:
  FieldLister(std::vector<ListedObject>& objects, size_t own) : objects_(objects), own_(own) {}

  template <typename T>
  void operator()(const char* key, const T&, const FieldRule& rule = {}) {
    add(key, type_of<T>(false), rule);
    list<T>(place(key), objects_);
  }
  template <typename T>
  void derived(const char* key, const T& value) {
    (*this)(key, value);
  }
  template <typename Body>
  void group(const char* key, Body&& body, const FieldRule& rule = {}) {
    add(key, "object", rule);
    objects_.push_back({{place(key)}, {}, typeid(Body)});
    FieldLister inner(objects_, objects_.size() - 1);
    body(inner);
  }

  /// Appends the objects that a T at `place` consists of, those inside it last.
  template <typename T>
  static void list(const std::string& place, std::vector<ListedObject>& objects) {
    if constexpr (kIsOptional<T>) {
      list<typename T::value_type>(place, objects);
    } else if constexpr (kIsList<T>) {
      list<typename T::value_type>(place + "[]", objects);
    } else if constexpr (kIsObject<T>) {
      for (ListedObject& known : objects) {
        if (known.type != typeid(T)) continue;
        known.places.push_back(place);
        return;
      }
      objects.push_back({{place}, {}, typeid(T)});
      FieldLister lister(objects, objects.size() - 1);
      T value{};
      T::describe(lister, value);
    }
  }

 private:
  template <typename T>
  static constexpr bool kIsObject = requires(FieldLister& lister, T& value) {
    T::describe(lister, value);
  };

  template <typename T>
  static std::string type_of(bool many) {
    const std::string plural = many ? "s" : "";
    if constexpr (kIsOptional<T>)
      return type_of<typename T::value_type>(many) + " or null";
    else if constexpr (kIsList<T>)
      return "list" + plural + " of " + type_of<typename T::value_type>(true);
    else if constexpr (std::is_same_v<T, bool>)
      return "true or false";
    else if constexpr (std::is_integral_v<T>)
      return "whole number" + plural;
    else if constexpr (std::is_floating_point_v<T>)
      return "number" + plural;
    else if constexpr (kIsObject<T>)
      return "object" + plural;
    else
      return "string" + plural;
  }

  void add(const char* key, std::string type, const FieldRule& rule) {
    if (rule.nullable || rule.missing_is_nan) type += " or null";
    if (rule.required) type += ", required";
    objects_[own_].keys.emplace_back(key, std::move(type));
  }
  std::string place(const char* key) const {
    const std::string& own = objects_[own_].places.front();
    return own.empty() ? key : own + "." + key;
  }

  std::vector<ListedObject>& objects_;
  size_t own_;
};

/// The keys of a T that is `place` in a file: for each object its places, then a line per type that keys in a
/// row have.
template <typename T>
std::string key_reference(const std::string& place) {
  std::vector<ListedObject> objects;
  FieldLister::list<T>(place, objects);
  std::vector<ListedObject> merged;
  for (ListedObject& object : objects) {
    const auto alike = std::ranges::find(merged, object.keys, &ListedObject::keys);
    if (alike == merged.end()) {
      merged.push_back(std::move(object));
    } else {
      alike->places.insert(alike->places.end(), object.places.begin(), object.places.end());
    }
  }
  std::string text;
  for (const ListedObject& object : merged) {
    text += '\n';
    for (const std::string& one : object.places) text += (one.empty() ? "the file" : one) + '\n';
    std::string keys;
    for (size_t i = 0; i < object.keys.size(); ++i) {
      const auto& [key, type] = object.keys[i];
      keys += keys.empty() ? key : ", " + key;
      if (i + 1 < object.keys.size() && object.keys[i + 1].second == type && keys.size() < 60) continue;
      text += "  " + keys + ": " + type + '\n';
      keys.clear();
    }
  }
  return text;
}

}  // namespace lockstep
