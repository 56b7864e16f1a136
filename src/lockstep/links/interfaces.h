#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/fields.h"

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

}  // namespace lockstep::links
