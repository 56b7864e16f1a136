#pragma once

#include <string>

namespace lockstep::feed {

/// Where rank `rank` of a job whose --address is `address` takes its batches: ipc:///tmp/x, ipc:///tmp/x.1,
/// ipc:///tmp/x.2, ...; tcp://127.0.0.1:5555, tcp://127.0.0.1:5556, ... Throws ConfigError for what is not
/// ipc://PATH or tcp://HOST:PORT, and for a port that does not exist.
std::string address_of_rank(const std::string& address, int rank);

}  // namespace lockstep::feed
