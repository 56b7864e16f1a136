#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep::pickle {

/// The name of something that only Python has, as "torch.FloatStorage".
struct Global {
  std::string name;
};

/// A tensor, described: which of the elements of which storage. None of them lies outside of it.
struct Tensor {
  /// Of the elements, as "torch.FloatStorage".
  std::string type;
  /// Of the storage.
  std::string key;
  /// That the storage has.
  int64_t elements = 0;
  /// All in elements; none is negative.
  int64_t offset = 0;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
};

struct Value;
using List = std::vector<const Value*>;
/// In the order of the file; of entries with the same key the last one counts.
using Dict = std::vector<std::pair<const Value*, const Value*>>;

/// What a pickle holds: nothing (None), a truth value, a number, text, or made of these. Several places may
/// share one.
struct Value {
  std::variant<std::monostate, bool, int64_t, double, std::string, Tensor, List, Dict, Global> content;
};

/// A pickle that was read, and the owner of all its values. No value contains itself, and none is more than
/// kMostLevels deep.
struct Pickle {
  std::deque<Value> values;
  const Value* root = nullptr;
};

constexpr int kMostLevels = 100;

}  // namespace lockstep::pickle
