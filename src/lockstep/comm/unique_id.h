#pragma once

#include <functional>
#include <string>

#include "lockstep/comm/store.h"

namespace lockstep::comm {

/// Collective over the ranks that use the same Store. Rank 0 makes an id, any bytes, with `make_id`, and
/// every rank returns it. `key`: a place in the store that is used once. Throws TimeoutError; an exception of
/// make_id is thrown on rank 0, and becomes a CommError on the others.
std::string share_unique_id(Store& store, const std::string& key, int rank,
                            const std::function<std::string()>& make_id,
                            std::chrono::duration<double> timeout);

}  // namespace lockstep::comm
