#include "lockstep/replica/torch_error.h"

#include <string>

#include "lockstep/base/error.h"

namespace lockstep::replica {
namespace {

/// Cuts LibTorch's message after the requested amount and the use of memory: the rest is about Python's
/// allocator.
std::string without_python_advice(const std::string& text) {
  return text.substr(0, text.find(" If reserved but unallocated memory"));
}

}  // namespace

void throw_plain(const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) {
    throw Error(
        without_python_advice(text),
        "Use a smaller --batch (with --accumulate for the same step), a --precision of fewer bytes, or "
        "a GPU that nobody else uses.");
  }
  throw Error(text);
}

std::string first_line(const std::exception& error) {
  const auto* known = dynamic_cast<const c10::Error*>(&error);
  std::string text = known == nullptr ? error.what() : known->what_without_backtrace();
  // The name that its JSON library begins with: "[json.exception.out_of_range.403] key 'x' not found".
  if (text.starts_with("[json.exception.")) text.erase(0, text.find(']') + 2);
  return text.substr(0, text.find('\n'));
}

}  // namespace lockstep::replica
