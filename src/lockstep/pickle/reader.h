#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
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
  /// Type of the elements, as "torch.FloatStorage".
  std::string type;
  /// The storage, and the number of its elements.
  std::string key;
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

/// A value in a pickle: nothing (None), a truth value, a number, text, or made of these. Several places may
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

/// Reads the pickle (protocol 2) of a torch.save file: dictionaries, OrderedDicts (as dictionaries, without
/// their attributes), lists, tuples (as lists), tensors, texts, numbers, truth values and None. Whatever else
/// it asks for is refused, as torch.load(weights_only=True) does, and nothing is executed. Takes memory in
/// proportion to the text. Throws Error naming what is wrong.
Pickle read(std::string_view text);

}  // namespace lockstep::pickle
