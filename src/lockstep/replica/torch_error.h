#pragma once

#include <utility>

#include <c10/util/Exception.h>

namespace lockstep::replica {

/// Throws LibTorch's own exception, whose text carries a stack trace, as Error with its first lines. Where a
/// GPU's memory ran out: with what was asked for and what is there.
[[noreturn]] void throw_plain(const c10::Error& error);

/// What `body` returns, with its exceptions turned so.
template <typename Body>
decltype(auto) with_plain_errors(Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const c10::Error& error) {
    throw_plain(error);
  }
}

}  // namespace lockstep::replica
