#include "lockstep/feed/address.h"

#include <charconv>
#include <string_view>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::feed {
namespace {

constexpr std::string_view kIpc = "ipc://";
constexpr std::string_view kTcp = "tcp://";
constexpr int kLastPort = 65535;

[[noreturn]] void refuse(const std::string& address, const std::string& why) {
  throw ConfigError(fmt::format("--address {}: {}", address, why),
                    "Write ipc:///tmp/NAME on one host, or tcp://HOST:PORT.");
}

}  // namespace

std::string address_of_rank(const std::string& address, int rank) {
  if (address.starts_with(kIpc)) {
    if (address.size() == kIpc.size()) refuse(address, "the path is missing");
    return rank == 0 ? address : fmt::format("{}.{}", address, rank);
  }
  if (!address.starts_with(kTcp)) refuse(address, "it is neither ipc:// nor tcp://");
  const size_t colon = address.rfind(':');
  if (colon <= kTcp.size()) refuse(address, "host or port is missing");
  int port = 0;
  const char* end = address.data() + address.size();
  const auto [stop, error] = std::from_chars(address.data() + colon + 1, end, port);
  if (error != std::errc() || stop != end || port < 1 || port > kLastPort) {
    refuse(address, fmt::format("'{}' is no port", address.substr(colon + 1)));
  }
  if (port + rank > kLastPort)
    refuse(address, fmt::format("there is no port {} for rank {}", port + rank, rank));
  return fmt::format("{}:{}", address.substr(0, colon), port + rank);
}

}  // namespace lockstep::feed
