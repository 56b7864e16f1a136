#include <set>
#include <stdexcept>

#include "lockstep/base/error.h"
#include "lockstep/pickle/reader.h"

#include "fuzz/reader.h"

namespace lockstep::fuzz {
namespace {

/// Checks that a tensor lies within its storage.
void check(const pickle::Tensor& tensor) {
  int64_t last = tensor.offset;
  for (size_t i = 0; i < tensor.sizes.size(); ++i) {
    if (tensor.sizes.at(i) < 0 || tensor.strides.at(i) < 0) throw std::logic_error("a negative size");
    if (tensor.sizes[i] == 0) return;
    last += (tensor.sizes[i] - 1) * tensor.strides[i];
  }
  if (tensor.offset < 0 || last >= tensor.elements) throw std::logic_error("a tensor outside of its storage");
}

/// Goes through everything, as who uses it does; without an end where a value contains itself.
void walk(const pickle::Value& value, std::set<const pickle::Value*>& known) {
  if (!known.insert(&value).second) return;
  if (const auto* tensor = std::get_if<pickle::Tensor>(&value.content)) check(*tensor);
  if (const auto* list = std::get_if<pickle::List>(&value.content)) {
    for (const pickle::Value* item : *list) walk(*item, known);
  }
  if (const auto* dict = std::get_if<pickle::Dict>(&value.content)) {
    for (const auto& entry : *dict) {
      walk(*entry.first, known);
      walk(*entry.second, known);
    }
  }
}

}  // namespace

bool reads(std::string_view text) {
  try {
    const pickle::Pickle pickle = pickle::read(text);
    std::set<const pickle::Value*> known;
    walk(*pickle.root, known);
    if (known.size() > text.size()) throw std::logic_error("more values than the file has bytes");
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace lockstep::fuzz
