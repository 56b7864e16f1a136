#pragma once

#include <nccl.h>

#include "lockstep/comm/types.h"

namespace lockstep::comm {

ncclDataType_t nccl_type(DType dtype);
ncclRedOp_t nccl_op(ReduceOp op);

}  // namespace lockstep::comm
