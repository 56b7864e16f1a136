#include "lockstep/comm/nccl/nccl_operation.h"

#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::comm {

void NcclOperation::issued(std::shared_ptr<CudaEvent> end, bool captured, Deadline deadline) {
  end_ = std::move(end);
  deadline_ = deadline;
  captured_ = captured;
}

bool NcclOperation::reached() const {
  return end_->reached();
}

bool NcclOperation::poll() noexcept {
  if (has_outcome()) return true;
  try {
    if (reached()) {
      complete();
    } else if (Clock::now() > deadline_) {
      throw TimeoutError(info().describe() + " over nccl did not complete in time",
                         "see whether every rank is alive and takes the same steps");
    }
  } catch (...) {
    fail(Failure::from_current_exception());
  }
  return has_outcome();
}

void NcclOperation::hold(cudaStream_t stream) const {
  end_->hold(stream);
}

}  // namespace lockstep::comm
