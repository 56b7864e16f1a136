#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/comm/listening_address.h"

namespace lockstep::comm {

/// Collective. The ranks of each host, ascending, hosts in the order of their first ranks. `host`: as below.
std::vector<std::vector<int>> ranks_by_host(Communicator& group,
                                            const std::string& host = network_identity());

/// Collective. A communicator of the ranks of `real` (owned by the caller, outliving this and everything
/// made from it) whose all-reduces of host memory go in two stages, in pieces: within each host through
/// shared memory to its first rank (HostMemory), and among the first ranks of all hosts by an all-reduce of a
/// communicator split from `real`. While one piece is on the network, the next is summed in memory. With N
/// ranks on H hosts and P bytes, 2 P (H - 1) / H bytes leave each host, instead of the 2 P (N - 1) / N of a
/// ring.
///
/// All ranks get the same bits: those of the first ranks' all-reduce. All-reduces are in order among
/// themselves; everything else, and all-reduces of a GPU's memory, are those of `real` and do not wait for
/// them. Splits are the real ones; duplicates are hierarchical. Where no two ranks share a host, all is
/// passed on to `real`.
///
/// `host`: the same text on exactly the ranks of one host. Throws ConfigError on all ranks if those of a host
/// cannot share memory.
std::unique_ptr<Communicator> make_hierarchical(Communicator& real, std::string host = network_identity());

}  // namespace lockstep::comm
