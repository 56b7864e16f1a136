#pragma once

#include <functional>

#include "lockstep/comm/communicator.h"

namespace lockstep::comm {

/// `real`, and `last` after it: called once, when `real` is complete or has failed, from where
/// Work::on_complete calls, whether or not anybody keeps the result. Takes the one callback of `real`; the
/// user's comes after `last`, and who waits on the host waits for `last` too, which may come later than the
/// end.
WorkPtr followed_by(WorkPtr real, std::function<void()> last);

}  // namespace lockstep::comm
