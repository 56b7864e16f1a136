#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep::models {

/// Hands a gradient to a parameter as a backward pass does. Autograd's engine takes ten times as long as what
/// it does here, and copies the gradient; it is needed where a hook asks for the pass that it is part of, as
/// DDP's Reducer does.
void accumulate(const at::Tensor& parameter, at::Tensor gradient);

}  // namespace lockstep::models
