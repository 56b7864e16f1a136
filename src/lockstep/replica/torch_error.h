#pragma once

#include <exception>
#include <string>
#include <utility>

#include <c10/util/Exception.h>

namespace lockstep::replica {

/// Rethrows an exception of LibTorch, whose text contains a stack trace, as Error without it. If a GPU's
/// memory ran out, with the requested and the available amount.
[[noreturn]] void throw_plain(const c10::Error& error);

/// The first line of a message, without LibTorch's stack trace and names of exceptions.
std::string first_line(const std::exception& error);

/// Calls `body` and returns its result; exceptions of LibTorch become Error by throw_plain().
template <typename Body>
decltype(auto) with_plain_errors(Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const c10::Error& error) {
    throw_plain(error);
  }
}

}  // namespace lockstep::replica
