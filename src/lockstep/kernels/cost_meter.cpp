#include "lockstep/kernels/cost_meter.h"

#include <algorithm>

namespace lockstep::kernels {

void CostMeter::keep(const at::Tensor& activation) {
  const bool known =
      std::ranges::any_of(kept_, [&](const at::Tensor& tensor) { return tensor.is_alias_of(activation); });
  if (known) return;
  kept_.push_back(activation);
  kept_values_ += static_cast<int64_t>(activation.storage().nbytes() / activation.itemsize());
}

}  // namespace lockstep::kernels
