#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

namespace lockstep::replica {

/// Blocks that were released, for the next ones that are taken: as memory of other sizes comes and goes in
/// between, the C library's allocator would take more and more.
class SpareMemory {
 public:
  struct Block {
    c10::DataPtr memory;
    size_t bytes = 0;
  };

  /// A block of at least `bytes`, a spare one if that is not much larger.
  Block take(c10::Allocator& allocator, size_t bytes);
  void give(Block block);

 private:
  /// At most kMost.
  std::vector<Block> blocks_;
};

/// Memory of a tensor that is given back and taken again while other tensors view it: sizes and strides stay,
/// also the storage's, and autograd keeps them. Contents are lost in between. Freed memory is reused in the
/// order of the calling thread's stream, so that on a GPU what the stream holds may still use it. Not
/// thread-safe.
class ReleasableMemory {
 public:
  /// Called before an operation that a ThreadWatch sees uses a tensor of this memory; with the operation's
  /// number, as it may use several. Must not throw.
  using OnUse = std::function<void(uint64_t operation)>;

  /// `tensor`: of LibTorch's allocator, alone in its storage.
  /// `spare`: outlives this; null, or on a GPU, whose allocator has blocks of its own: none.
  ReleasableMemory(at::Tensor tensor, OnUse on_use, SpareMemory* spare = nullptr);
  /// The tensors of the memory keep it as it is.
  ~ReleasableMemory();
  ReleasableMemory(const ReleasableMemory&) = delete;
  ReleasableMemory& operator=(const ReleasableMemory&) = delete;

  bool present() const { return tensor_.storage().data() != nullptr || bytes_ == 0; }
  void release();
  /// Takes memory with undefined contents, unless it is present.
  void take();

  struct Tag {
    OnUse on_use;
  };

 private:
  /// Returns the block that was held.
  SpareMemory::Block hold(SpareMemory::Block block);

  at::Tensor tensor_;
  size_t bytes_;
  SpareMemory* spare_;
  std::shared_ptr<Tag> tag_;
};

/// Watches, while it exists, the operations that the constructing thread starts: those of LibTorch, views
/// excepted, and those that announce their tensors by uses(). Threads of autograd that work for it count.
class ThreadWatch {
 public:
  ThreadWatch();
  ~ThreadWatch();
  ThreadWatch(const ThreadWatch&) = delete;
  ThreadWatch& operator=(const ThreadWatch&) = delete;

 private:
  at::CallbackHandle handle_;
};

/// Announces that the caller is about to use the memory of these tensors without an operation of LibTorch's;
/// undefined ones are ignored.
inline void uses(const at::Tensor& a, const at::Tensor& b = {}, const at::Tensor& c = {}) {
  RECORD_FUNCTION("lockstep::uses", std::vector<c10::IValue>({a, b, c}));
}

}  // namespace lockstep::replica
