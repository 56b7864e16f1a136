#pragma once

#include <string>

namespace lockstep::launch {

/// Whether `name` is a network interface of this host, or a name or number of one of its addresses.
bool is_on_this_host(const std::string& name);

}  // namespace lockstep::launch
