#include <ATen/Context.h>

#include "lockstep/base/error.h"
#include "lockstep/replica/accelerator.h"

namespace lockstep::replica {

AcceleratorStatus accelerator_status() {
  if (at::Context::hasCUDA()) {
    return {.usable = false, .detail = "this lockstep cannot compute on GPUs yet", .advice = "", .count = 0};
  }
  return {.usable = false,
          .detail = "this LibTorch is built for processors only",
          .advice = "Build lockstep with a LibTorch for CUDA: LOCKSTEP_TORCH names its folder.",
          .count = 0};
}

std::shared_ptr<Accelerator> open_accelerator(int /*index*/) {
  const AcceleratorStatus status = accelerator_status();
  throw BackendMissing(status.detail, status.advice);
}

}  // namespace lockstep::replica
