#pragma once

#include <cstddef>

namespace lockstep::limit {

/// Memory of its own, straight from the system and back to it: the process' heap is as before, whatever was
/// measured in between. Every page was written to.
class Pages {
 public:
  /// Throws Error where there is not enough memory.
  explicit Pages(size_t bytes);
  ~Pages();
  Pages(Pages&& other) noexcept;
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  Pages& operator=(Pages&&) = delete;

  void* data() const { return data_; }

 private:
  void* data_;
  size_t bytes_;
};

}  // namespace lockstep::limit
