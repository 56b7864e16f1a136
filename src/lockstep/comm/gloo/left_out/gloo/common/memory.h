#pragma once

#include <memory>

namespace gloo {

// Stands in for a header of Gloo's that Debian's package leaves out, although the headers of the TCP
// transport include it: the names, and the size that Gloo's objects get from them. Found only where the real
// one is not.

template <typename T>
class NonOwningPtr;

template <typename T>
class WeakNonOwningPtr {
 private:
  std::weak_ptr<T> pointer_;
};

}  // namespace gloo
