#pragma once

#include <type_traits>

// For comparing lockstep's own declarations of a library with its maker's header, when compiling.

namespace lockstep::topology {

/// Pointers to what only the library knows.
template <typename T>
consteval bool is_opaque() {
  if constexpr (std::is_pointer_v<T> && std::is_class_v<std::remove_pointer_t<T>>) {
    return !requires {
      sizeof(std::remove_pointer_t<T>);
    };
  } else {
    return false;
  }
}

/// Whether values of both types are passed the same way: numbers of one size, or pointers to such.
template <typename One, typename Other>
consteval bool same_passing() {
  if constexpr (is_opaque<One>() || is_opaque<Other>()) {
    return is_opaque<One>() && is_opaque<Other>();
  } else if constexpr (std::is_pointer_v<One> && std::is_pointer_v<Other>) {
    return sizeof(std::remove_pointer_t<One>) == sizeof(std::remove_pointer_t<Other>);
  } else {
    return std::is_pointer_v<One> == std::is_pointer_v<Other> && sizeof(One) == sizeof(Other);
  }
}

template <typename Ours, typename Theirs>
struct SameCall : std::false_type {};
template <typename Result, typename... Parameters, typename TheirResult, typename... TheirParameters>
struct SameCall<Result (*)(Parameters...), TheirResult (*)(TheirParameters...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(Parameters) != sizeof...(TheirParameters)) {
      return false;
    } else {
      return same_passing<Result, TheirResult>() &&
             (same_passing<Parameters, TheirParameters>() && ... && true);
    }
  }();
};

}  // namespace lockstep::topology
