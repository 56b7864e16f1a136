#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/fields.h"
#include "lockstep/results/files/system_json.h"

namespace lockstep::links {

/// A network interface of a host that is up and has an address.
struct Interface {
  std::string name;
  /// In digits, with the length of the network's prefix: "198.51.100.1/24".
  std::vector<std::string> addresses;
  /// Speed that its driver states, in Gbit/s; empty: none (loopback, most virtual machines).
  std::optional<double> gbit_per_s;

  LOCKSTEP_DESCRIBE(kOptional, name, addresses, gbit_per_s)
};

/// Interfaces of this process's network namespace in the system's order, loopback included, without addresses
/// that are valid on one link only. Never throws: what cannot be read is left out.
std::vector<Interface> network_interfaces();

/// The name of the one that has an address in digits; empty for none.
std::string interface_with(const std::vector<Interface>& interfaces, const std::string& address);

/// Whether two addresses in the form of Interface::addresses differ and belong to one network.
bool on_one_network(const std::string& one, const std::string& other);

/// The carrier of a flow: a network, the loopback interface, or memory that two ranks of a host share.
inline constexpr const char* kNetwork = "network";
inline constexpr const char* kLoopback = "loopback";
inline constexpr const char* kMemory = "memory";

struct Host {
  topology::System system;
  std::vector<Interface> interfaces;

  LOCKSTEP_DESCRIBE(kRequired, system, interfaces)
};

struct Rank {
  /// Index in Record::hosts.
  int host = 0;
  /// Its end of all of its connections, and the interface that has it; empty where a library chooses.
  std::string address;
  std::string interface;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& self) {
    fields("host", self.host, kRequired);
    LOCKSTEP_FIELDS(kNullable, address, interface)
  }
};

/// Messages from one rank to another.
struct Flow {
  int from = 0;
  int to = 0;
  /// kNetwork, kLoopback or kMemory.
  std::string kind = kNetwork;
  /// While nobody else sends: medians over the rounds; half a round trip of 8 bytes.
  double gbit_per_s = 0;
  double latency_s = 0;
  /// While every rank sends to the next one; empty: `to` is not the next one.
  std::optional<double> at_once_gbit_per_s;
  std::vector<double> rounds_gbit_per_s;
  std::vector<double> rounds_latency_s;

  LOCKSTEP_DESCRIBE(kRequired, from, to, kind, gbit_per_s, latency_s, at_once_gbit_per_s, rounds_gbit_per_s,
                    rounds_latency_s)

  /// Least and largest of the rounds: with five of them, 94 % of such ranges hold the true median.
  double low() const;
  double high() const;
};

/// Everything that one `lockstep topo --measure` found.
struct Record {
  std::string lockstep_version;
  std::string command;
  std::string backend;
  /// Reason why rounds are missing; empty: none are.
  std::string incomplete;
  std::vector<Host> hosts;
  std::vector<Rank> ranks;
  /// Every ordered pair of ranks.
  std::vector<Flow> flows;
  /// Sentences of findings().
  std::vector<std::string> warnings;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& self) {
    LOCKSTEP_FIELDS(kOptional, lockstep_version, command, backend, incomplete)
    LOCKSTEP_FIELDS(kRequired, hosts, ranks, flows)
    fields("warnings", self.warnings);
  }

  /// "node3"; with an address behind it where two hosts have one name.
  std::string host_name(int host) const;
  /// Host and interface names of a rank.
  const Host& host_of(int rank) const {
    return hosts[static_cast<size_t>(ranks[static_cast<size_t>(rank)].host)];
  }
};

/// Fills in medians and warnings from the rounds.
void summarize(Record& record);

std::string to_json(const Record& record);

/// Whether a text is that of to_json(), by its beginning.
bool is_record(std::string_view text);

/// Throws Error that names `name` and the place for text that to_json() did not write, or whose numbers
/// cannot be.
Record from_json(std::string_view text, std::string_view name);

}  // namespace lockstep::links
