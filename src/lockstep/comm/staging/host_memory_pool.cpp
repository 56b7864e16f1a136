#include "lockstep/comm/staging/host_memory_pool.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace lockstep::comm {

HostMemoryPool::HostMemoryPool(std::shared_ptr<CopyEngine> engine) : shelves_(std::make_shared<Shelves>()) {
  shelves_->engine = std::move(engine);
}

std::shared_ptr<std::byte> HostMemoryPool::take(size_t bytes) {
  constexpr size_t kSmallest = 4096;
  const size_t size = std::bit_ceil(std::max(bytes, kSmallest));
  std::shared_ptr<std::byte> memory;
  {
    const std::lock_guard lock(shelves_->mutex);
    if (auto& shelf = shelves_->free[size]; !shelf.empty()) {
      memory = std::move(shelf.back());
      shelf.pop_back();
    }
  }
  if (!memory) memory = shelves_->engine->host_memory(size);
  std::byte* const address = memory.get();
  return {address, [shelves = shelves_, memory = std::move(memory), size](std::byte*) mutable {
            const std::lock_guard lock(shelves->mutex);
            shelves->free[size].push_back(std::move(memory));
          }};
}

}  // namespace lockstep::comm
