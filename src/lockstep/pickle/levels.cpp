#include "lockstep/pickle/levels.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::pickle {
namespace {

class Levels {
 public:
  /// Levels of the value and all in it. `above`: the number of those around it.
  int count(const Value& value, int above) {
    if (above >= kMostLevels) refuse();
    const auto known = known_.find(&value);
    if (known != known_.end()) {
      // Counted in another place, and maybe too deep in this one.
      if (above + known->second > kMostLevels) refuse();
      return known->second;
    }
    const List* list = std::get_if<List>(&value.content);
    const Dict* dict = std::get_if<Dict>(&value.content);
    if (list == nullptr && dict == nullptr) return 1;
    int below = 0;
    if (list != nullptr) {
      for (const Value* item : *list) below = std::max(below, count(*item, above + 1));
    } else {
      for (const auto& entry : *dict) below = std::max(below, count(*entry.second, above + 1));
    }
    known_[&value] = below + 1;
    return below + 1;
  }

 private:
  [[noreturn]] static void refuse() {
    throw Error(fmt::format("a value in it contains itself, or has more than {} levels", kMostLevels));
  }

  std::unordered_map<const Value*, int> known_;
};

}  // namespace

void check_levels(const Value& root) {
  Levels().count(root, 0);
}

}  // namespace lockstep::pickle
