#include "lockstep/kernels/batch_norm.h"

#include <ATen/ops/batch_norm.h>

namespace lockstep::kernels {
namespace {

using replica::Init;

constexpr double kMomentum = 0.1;

}  // namespace

BatchNorm::BatchNorm(replica::Parameters& parameters, const std::string& name, int64_t channels,
                     double epsilon)
    : epsilon_(epsilon),
      weight_(parameters.add(name + ".weight", channels, Init::constant(1))),
      bias_(parameters.add(name + ".bias", channels, Init::constant(0))),
      running_mean_(parameters.add_buffer(name + ".running_mean", channels, 0)),
      running_var_(parameters.add_buffer(name + ".running_var", channels, 1)),
      num_batches_tracked_(parameters.add_buffer(name + ".num_batches_tracked", {}, 0, at::kLong)) {}

at::Tensor BatchNorm::operator()(const at::Tensor& x, const Context& context) const {
  if (context.cost != nullptr) context.cost->keep(x);
  if (context.training) num_batches_tracked_.add_(1);
  return at::batch_norm(x, weight_, bias_, running_mean_, running_var_, context.training, kMomentum, epsilon_,
                        /*cudnn_enabled=*/true);
}

}  // namespace lockstep::kernels
