#include "lockstep/train/training/content_hash.h"

#include <bit>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/train/rows/bits.h"

namespace lockstep::train {
namespace {

void add(uint64_t& hash, const at::IValue& value) {
  if (value.isTensor()) {
    const at::Tensor tensor = value.toTensor().contiguous();
    add_text(hash, fmt::format("tensor {} {}", static_cast<int>(tensor.scalar_type()),
                               fmt::join(tensor.sizes(), " ")));
    add_bits(hash, tensor);
  } else if (value.isGenericDict()) {
    add_text(hash, fmt::format("dictionary {}", value.toGenericDict().size()));
    for (const auto& entry : value.toGenericDict()) {
      add(hash, entry.key());
      add(hash, entry.value());
    }
  } else if (value.isList()) {
    add_text(hash, fmt::format("list {}", value.toListRef().size()));
    for (const at::IValue& item : value.toListRef()) add(hash, item);
  } else if (value.isString()) {
    add_text(hash, "text");
    add_text(hash, value.toStringRef());
  } else if (value.isInt()) {
    add_text(hash, fmt::format("number {}", value.toInt()));
  } else if (value.isDouble()) {
    add_text(hash, fmt::format("real {}", std::bit_cast<uint64_t>(value.toDouble())));
  } else {
    throw Error("it holds something else than dictionaries, lists, tensors, texts and numbers");
  }
}

}  // namespace

uint64_t hash_of(const at::IValue& content) {
  uint64_t hash = kEmptyHash;
  add(hash, content);
  return hash;
}

}  // namespace lockstep::train
