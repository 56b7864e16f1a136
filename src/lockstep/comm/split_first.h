#pragma once

#include <memory>

#include "lockstep/comm/communicator.h"

namespace lockstep::comm {

/// The first `count` ranks of a communicator as one of their own, null on the others; with all of them a
/// second one beside the first, whose operations do not meet the first's. Collective over `group`.
std::unique_ptr<Communicator> split_first(Communicator& group, int count);

}  // namespace lockstep::comm
