#include "lockstep/kernels/layer_init.h"

#include <cmath>

namespace lockstep::kernels {

using replica::Init;

LayerInit kaiming_normal_fan_out(int64_t out_channels, int64_t kernel_area) {
  const auto fan_out = static_cast<double>(kernel_area * out_channels);
  return {Init::normal(std::sqrt(2.0 / fan_out)), std::nullopt};
}

LayerInit uniform_fan_in(int64_t fan_in) {
  const Init init = Init::uniform(1.0 / std::sqrt(static_cast<double>(fan_in)));
  return {init, init};
}

}  // namespace lockstep::kernels
