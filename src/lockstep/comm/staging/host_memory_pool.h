#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "lockstep/comm/staging/copy_engine.h"

namespace lockstep::comm {

/// Keeps an engine's host memory for the next one who wants as much. Thread-safe; what it lent may outlive
/// it.
class HostMemoryPool {
 public:
  explicit HostMemoryPool(std::shared_ptr<CopyEngine> engine);

  /// At least `bytes`; goes back to the pool when the last owner lets go.
  std::shared_ptr<std::byte> take(size_t bytes);

 private:
  struct Shelves {
    std::shared_ptr<CopyEngine> engine;
    std::mutex mutex;
    /// By size, a power of two.
    std::map<size_t, std::vector<std::shared_ptr<std::byte>>> free;
  };

  std::shared_ptr<Shelves> shelves_;
};

}  // namespace lockstep::comm
