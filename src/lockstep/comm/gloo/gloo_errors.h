#pragma once

#include <utility>

namespace lockstep::comm {

/// Call inside of a catch block: throws what a Gloo exception means in lockstep's family (PeerLostError for a
/// closed connection, TimeoutError, else CommError), and lockstep's own as they are.
[[noreturn]] void rethrow_gloo_exception();

template <typename Call>
auto translated(Call&& call) {
  try {
    return std::forward<Call>(call)();
  } catch (...) {
    rethrow_gloo_exception();
  }
}

}  // namespace lockstep::comm
