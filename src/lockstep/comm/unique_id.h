#pragma once

#include <functional>
#include <string>

#include "lockstep/comm/store.h"

namespace lockstep::comm {

/// Collective over the ranks 0 to size - 1 that use the same Store. Rank 0 makes an id with `make_id`, any
/// bytes, and every rank gets it, provided that no two ranks named the same `device`; else every rank throws
/// the same ConfigError, which names them. `prefix`: a part of the store that is used once. Throws
/// TimeoutError; what make_id throws is thrown on rank 0, and told as a CommError on the others.
std::string share_unique_id(Store& store, const std::string& prefix, int rank, int size,
                            const std::string& device, const std::function<std::string()>& make_id,
                            std::chrono::duration<double> timeout);

}  // namespace lockstep::comm
