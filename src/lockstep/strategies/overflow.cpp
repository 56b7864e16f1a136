#include "lockstep/strategies/overflow.h"

#include "lockstep/strategies/tensor_buffer.h"

namespace lockstep::strategies {

void agree_on_overflow(const replica::LossScale& scale, comm::Communicator& group) {
  const at::Tensor& overflow = scale.overflow();
  wait_for(*group.all_reduce(buffer_of(overflow), comm::ReduceOp::kMax), overflow);
}

}  // namespace lockstep::strategies
