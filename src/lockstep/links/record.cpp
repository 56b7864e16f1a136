#include "lockstep/links/record.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "lockstep/base/error.h"
#include "lockstep/base/json_codec.h"
#include "lockstep/base/number_range.h"
#include "lockstep/base/tcp_socket.h"
#include "lockstep/links/report.h"
#include "lockstep/measure/series.h"

namespace lockstep::links {
namespace {

constexpr const char* kSchema = "lockstep links";
/// Raised when a key changes its meaning; new keys do not need it.
constexpr int kSchemaVersion = 1;
constexpr std::string_view kBeginning = "{\n  \"schema\": \"lockstep links\"";
constexpr const char* kAdvice = "Give a file of lockstep topo --measure --json FILE.";

/// Throws unless every rank has a host, and every flow two ranks and times.
void check(const JsonNode& root, const Record& record) {
  const std::vector<JsonNode> ranks = root["ranks"].elements(), flows = root["flows"].elements();
  if (record.hosts.empty()) root["hosts"].refuse("a host");
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (record.ranks[i].host >= std::ssize(record.hosts)) ranks[i]["host"].refuse("the index of a host");
  }
  if (flows.empty()) root["flows"].refuse("a flow between two ranks");
  for (size_t i = 0; i < flows.size(); ++i) {
    const Flow& flow = record.flows[i];
    if (flow.from >= std::ssize(ranks)) flows[i]["from"].refuse("a rank");
    if (flow.to >= std::ssize(ranks) || flow.to == flow.from) flows[i]["to"].refuse("another rank");
    if (flow.kind != kNetwork && flow.kind != kLoopback && flow.kind != kMemory)
      flows[i]["kind"].refuse("network, loopback or memory");
    const auto refuse_unless_positive = [&](const char* key, const std::vector<double>& rounds) {
      const auto is_positive = [](double value) { return std::isfinite(value) && value > 0; };
      if (rounds.empty() || !std::ranges::all_of(rounds, is_positive))
        flows[i][key].refuse("numbers above 0");
    };
    refuse_unless_positive("rounds_gbit_per_s", flow.rounds_gbit_per_s);
    refuse_unless_positive("rounds_latency_s", flow.rounds_latency_s);
  }
}

/// The bytes of an address of either family; empty for any other.
std::string bytes_of(const sockaddr* address) {
  if (address == nullptr) return "";
  const auto raw = [&](const auto& part) {
    return std::string(reinterpret_cast<const char*>(&part), sizeof part);
  };
  if (address->sa_family == AF_INET) return raw(reinterpret_cast<const sockaddr_in*>(address)->sin_addr);
  if (address->sa_family == AF_INET6) return raw(reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
  return "";
}

/// "198.51.100.1/24"; empty for an address of one link only, or of another family.
std::string text_of(const ifaddrs& one) {
  const std::string bytes = bytes_of(one.ifa_addr), mask = bytes_of(one.ifa_netmask);
  const bool of_link =
      bytes.size() == sizeof(in6_addr) && bytes[0] == '\xfe' && (bytes[1] & '\xc0') == '\x80';
  char digits[INET6_ADDRSTRLEN] = "";
  if (bytes.empty() || of_link ||
      ::inet_ntop(one.ifa_addr->sa_family, bytes.data(), digits, sizeof digits) == nullptr)
    return "";
  int prefix = 0;
  for (const char c : mask) prefix += std::popcount(static_cast<unsigned char>(c));
  return fmt::format("{}/{}", digits, prefix);
}

/// The speed that a driver states, as ethtool asks for it: first for the length of the answer, then for it.
std::optional<double> stated_gbit_per_s(const char* name) {
  const UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  // The largest answer: three masks of 127 words follow the structure.
  constexpr size_t kBytes = sizeof(ethtool_link_settings) + 3 * 127 * sizeof(uint32_t);
  alignas(ethtool_link_settings) std::array<char, kBytes> memory{};
  auto& settings = *reinterpret_cast<ethtool_link_settings*>(memory.data());
  ifreq request{};
  std::strncpy(request.ifr_name, name, sizeof request.ifr_name - 1);
  request.ifr_data = memory.data();
  settings.cmd = ETHTOOL_GLINKSETTINGS;
  if (!fd || ::ioctl(fd.get(), SIOCETHTOOL, &request) != 0 || settings.link_mode_masks_nwords >= 0)
    return std::nullopt;
  settings.link_mode_masks_nwords = static_cast<int8_t>(-settings.link_mode_masks_nwords);
  if (::ioctl(fd.get(), SIOCETHTOOL, &request) != 0) return std::nullopt;
  const bool known = settings.speed > 0 && settings.speed != static_cast<uint32_t>(SPEED_UNKNOWN);
  return known ? std::optional(settings.speed / 1e3) : std::nullopt;
}

struct Network {
  std::string bytes;
  int prefix = 0;
};

std::optional<Network> parse(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos) return std::nullopt;
  const std::string digits = text.substr(0, slash);
  std::array<char, sizeof(in6_addr)> bytes{};
  size_t length = sizeof(in_addr);
  if (::inet_pton(AF_INET, digits.c_str(), bytes.data()) != 1) {
    length = sizeof(in6_addr);
    if (::inet_pton(AF_INET6, digits.c_str(), bytes.data()) != 1) return std::nullopt;
  }
  const std::optional<int64_t> prefix =
      parse_whole(text.substr(slash + 1), {.least = 0, .most = 8.0 * static_cast<double>(length)});
  if (!prefix) return std::nullopt;
  return Network{std::string(bytes.data(), length), static_cast<int>(*prefix)};
}

}  // namespace

double Flow::low() const {
  return std::ranges::min(rounds_gbit_per_s);
}
double Flow::high() const {
  return std::ranges::max(rounds_gbit_per_s);
}

std::string Record::host_name(int host) const {
  const std::string& name = hosts[static_cast<size_t>(host)].system.host;
  const auto same = [&](const Host& other) { return other.system.host == name; };
  const auto rank = std::ranges::find(ranks, host, &Rank::host);
  if (std::ranges::count_if(hosts, same) < 2 || rank == ranks.end() || rank->address.empty()) return name;
  return fmt::format("{}/{}", name, rank->address);
}

void summarize(Record& record) {
  for (Flow& flow : record.flows) {
    flow.gbit_per_s = measure::median_of(flow.rounds_gbit_per_s);
    flow.latency_s = measure::median_of(flow.rounds_latency_s);
  }
  record.warnings = findings(record);
}

std::string to_json(const Record& record) {
  return json_text(encode_after({{"schema", kSchema}, {"schema_version", kSchemaVersion}}, record));
}

bool is_record(std::string_view text) {
  return text.starts_with(kBeginning);
}

Record from_json(std::string_view text, std::string_view name) {
  const nlohmann::json document = parse_json(text, name, kAdvice);
  const JsonNode root(document, name);
  if (!document.is_object() || root["schema"].text_or("") != kSchema)
    throw Error(fmt::format("'{}' is JSON, but no file of measured links", name), kAdvice);
  root["schema_version"].version(kSchemaVersion);
  Record record;
  decode(root, record);
  check(root, record);
  summarize(record);
  return record;
}

std::vector<Interface> network_interfaces() {
  std::vector<Interface> found;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return found;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    const std::string text = (one->ifa_flags & IFF_RUNNING) != 0 ? text_of(*one) : "";
    if (text.empty()) continue;
    auto known = std::ranges::find(found, one->ifa_name, &Interface::name);
    if (known == found.end())
      known = found.insert(
          known, {.name = one->ifa_name, .addresses = {}, .gbit_per_s = stated_gbit_per_s(one->ifa_name)});
    known->addresses.push_back(text);
  }
  ::freeifaddrs(all);
  return found;
}

std::string interface_with(const std::vector<Interface>& interfaces, const std::string& address) {
  for (const Interface& one : interfaces) {
    for (const std::string& each : one.addresses) {
      if (!address.empty() && each.starts_with(address + "/")) return one.name;
    }
  }
  return "";
}

bool on_one_network(const std::string& one, const std::string& other) {
  const std::optional<Network> a = parse(one), b = parse(other);
  if (!a || !b || a->bytes.size() != b->bytes.size() || a->prefix != b->prefix || a->bytes == b->bytes)
    return false;
  for (int bit = 0; bit < a->prefix; ++bit) {
    const size_t byte = static_cast<size_t>(bit) / 8;
    if (((a->bytes[byte] ^ b->bytes[byte]) >> (7 - bit % 8) & 1) != 0) return false;
  }
  return true;
}

}  // namespace lockstep::links
