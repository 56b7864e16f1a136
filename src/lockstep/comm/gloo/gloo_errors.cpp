#include "lockstep/comm/gloo/gloo_errors.h"

#include <exception>
#include <initializer_list>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

bool contains_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) {
    if (text.find(part) != std::string_view::npos) return true;
  }
  return false;
}

/// Gloo puts the place in its own source first: "[.../pair.cc:598] Connection closed by peer
/// [127.0.0.1]:4242".
std::string without_source_place(std::string text) {
  if (text.empty() || text.front() != '[') return text;
  const size_t end = text.find("] ");
  return end == std::string::npos ? text : text.substr(end + 2);
}

}  // namespace

void rethrow_gloo_exception() {
  try {
    throw;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    const std::string text = "Gloo: " + without_source_place(error.what());
    if (contains_any(
            text, {"closed by peer", "reset by peer", "Broken pipe", "socket closed", "closed connection"})) {
      throw PeerLostError(text, "another rank ended or lost its network; its own output says why");
    }
    if (contains_any(text, {"imed out", "imeout"})) {
      throw TimeoutError(text, "see whether every rank is alive and takes the same steps");
    }
    throw CommError(text);
  }
}

}  // namespace lockstep::comm
