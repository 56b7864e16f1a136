#pragma once

#include <string>
#include <vector>

#include "lockstep/links/record.h"

namespace lockstep::links {

/// Hosts "node1", ... with two interfaces of one network each, eth0 (10 Gbit/s, the one that ranks use) and
/// eth1 (1 Gbit/s), and `ranks_each` ranks. Flows between hosts have 9.4 Gbit/s and 25 us, those within one
/// 30 Gbit/s and 8 us, all with a scatter of some percent over five rounds.
Record sample_links(int hosts, int ranks_each);

/// Multiplies the rate of a flow, in all rounds.
void slow_down(Record& record, int from, int to, double factor);

/// A host of two sockets with two GPUs each, which NVLinks connect in pairs.
topology::System sample_system(const std::string& host);

}  // namespace lockstep::links
