#include "lockstep/replica/releasable_memory.h"

#include <algorithm>
#include <utility>

#include <c10/core/InferenceMode.h>

namespace lockstep::replica {
namespace {

/// The context of a storage's memory, which tells the storage from others.
struct Held {
  SpareMemory::Block block;
  std::shared_ptr<ReleasableMemory::Tag> tag;
};

void drop(void* context) {
  delete static_cast<Held*>(context);
}

ReleasableMemory::Tag* tag_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return nullptr;
  const auto* held = tensor.storage().unsafeGetStorageImpl()->data_ptr().cast_context<Held>(&drop);
  return held == nullptr ? nullptr : held->tag.get();
}

/// Whether an operation of LibTorch's only makes a view, or decides to; one that copies starts another.
bool makes_view(const at::RecordFunction& operation) {
  const std::optional<c10::FunctionSchema> schema = operation.operator_schema();
  return schema && std::ranges::any_of(schema->arguments(), [](const c10::Argument& argument) {
           return argument.alias_info() != nullptr && !argument.alias_info()->isWrite();
         });
}

std::unique_ptr<at::ObserverContext> on_operation(const at::RecordFunction& operation) {
  thread_local uint64_t number = 0;
  ++number;
  std::optional<bool> is_view;
  const auto report = [&](const at::Tensor& tensor) {
    const ReleasableMemory::Tag* tag = tag_of(tensor);
    if (tag == nullptr || !tag->on_use) return;
    if (!is_view) is_view = makes_view(operation);
    if (*is_view) return;
    const at::DisableRecordFunctionGuard unwatched;
    // A graph may run in inference mode, whose tensors may not be changed later.
    const c10::InferenceMode as_ever(false);
    tag->on_use(number);
  };
  for (const c10::IValue& input : operation.inputs()) {
    if (input.isTensor()) {
      report(input.toTensor());
    } else if (input.isTensorList()) {
      for (const at::Tensor& tensor : input.toTensorVector()) report(tensor);
    }
  }
  return nullptr;
}

}  // namespace

SpareMemory::Block SpareMemory::take(c10::Allocator& allocator, size_t bytes) {
  constexpr size_t kLargest = 2;
  const auto fits = [&](const Block& block) {
    return block.bytes >= bytes && block.bytes <= kLargest * bytes;
  };
  const auto spare = std::ranges::find_if(blocks_, fits);
  if (spare == blocks_.end()) return {allocator.allocate(bytes), bytes};
  Block block = std::move(*spare);
  blocks_.erase(spare);
  return block;
}

void SpareMemory::give(Block block) {
  constexpr size_t kMost = 2;
  blocks_.push_back(std::move(block));
  if (blocks_.size() > kMost) blocks_.erase(blocks_.begin());
}

ReleasableMemory::ReleasableMemory(at::Tensor tensor, OnUse on_use, SpareMemory* spare)
    : tensor_(std::move(tensor)),
      bytes_(tensor_.storage().nbytes()),
      spare_(tensor_.is_cuda() ? nullptr : spare),
      tag_(std::make_shared<Tag>(std::move(on_use))) {
  c10::StorageImpl& storage = *tensor_.storage().unsafeGetStorageImpl();
  hold({storage.set_data_ptr(c10::DataPtr(nullptr, tensor_.device())), bytes_});
}

ReleasableMemory::~ReleasableMemory() {
  tag_->on_use = {};
}

void ReleasableMemory::release() {
  if (!present()) return;
  // Views check their borders by the storage's size, which stays.
  SpareMemory::Block block = hold({c10::DataPtr(nullptr, tensor_.device()), 0});
  if (spare_ != nullptr) spare_->give(std::move(block));
}

void ReleasableMemory::take() {
  if (present()) return;
  c10::Allocator& allocator = *tensor_.storage().unsafeGetStorageImpl()->allocator();
  hold(spare_ != nullptr ? spare_->take(allocator, bytes_)
                         : SpareMemory::Block{allocator.allocate(bytes_), bytes_});
}

SpareMemory::Block ReleasableMemory::hold(SpareMemory::Block block) {
  void* data = block.memory.mutable_get();
  c10::StorageImpl& storage = *tensor_.storage().unsafeGetStorageImpl();
  SpareMemory::Block before;
  if (auto* held = storage.data_ptr().cast_context<Held>(&drop)) before = std::move(held->block);
  auto held = std::make_unique<Held>(std::move(block), tag_);
  storage.set_data_ptr_noswap(c10::DataPtr(data, held.release(), &drop, tensor_.device()));
  return before;
}

ThreadWatch::ThreadWatch()
    : handle_(at::addThreadLocalCallback(
          at::RecordFunctionCallback(&on_operation).needsInputs(true).scopes({at::RecordScope::FUNCTION}))) {}

ThreadWatch::~ThreadWatch() {
  at::removeCallback(handle_);
}

}  // namespace lockstep::replica
