#include "lockstep/models/model.h"

#include <algorithm>

#include <fmt/format.h>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/zeros.h>

#include "lockstep/base/error.h"

namespace lockstep::models {
namespace {

/// The cost as it was counted when the file was traced.
ModelCost cost_of(const network_file::NetworkFile& file, bool bf16) {
  ModelCost cost{.multiply_adds = file.multiply_adds};
  for (const network_file::Graph& graph : file.graphs) {
    if ((graph.precision != "bf16") == bf16) continue;
    cost.activation_bytes = std::max(cost.activation_bytes, graph.activation_bytes / graph.batch);
  }
  return cost;
}

}  // namespace

at::Tensor cross_entropy(const Output& output, const at::Tensor& labels) {
  at::Tensor loss = at::cross_entropy_loss(output.logits, labels);
  for (const auto& [logits, weight] : output.auxiliary) {
    loss = loss + weight * at::cross_entropy_loss(logits, labels);
  }
  return loss;
}

void check_image_size(std::string_view name, const ModelInfo& info, int64_t image_size) {
  if (image_size >= info.min_image_size && image_size <= info.max_image_size) return;
  if (info.min_image_size == info.max_image_size) {
    throw ConfigError(fmt::format("{} takes images of {}x{}, not of {}x{}", name, info.image_size,
                                  info.image_size, image_size, image_size),
                      fmt::format("Leave out --image-size, or give it as {}.", info.image_size));
  }
  throw ConfigError(
      fmt::format("{} takes images from {}x{} to {}x{}, not of {}x{}", name, info.min_image_size,
                  info.min_image_size, info.max_image_size, info.max_image_size, image_size, image_size),
      fmt::format("The published size is --image-size {}.", info.image_size));
}

ModelCost measure_cost(const ModelInfo& info, int64_t image_size, bool bf16) {
  if (info.file != nullptr) return cost_of(*info.file, bf16);
  const at::NoGradGuard no_grad;
  const std::unique_ptr<Model> model = info.create({.seed = std::nullopt});
  kernels::CostMeter meter;
  kernels::Context context;
  context.cost = &meter;
  // The cost of an image does not depend on its pixels.
  const at::Tensor image = at::zeros({1, info.channels, image_size, image_size});
  const Output output = model->forward(image.contiguous(model->parameters().memory_format()), context);
  // The loss keeps one log-probability per logit.
  meter.keep(output.logits);
  for (const AuxiliaryLogits& auxiliary : output.auxiliary) meter.keep(auxiliary.logits);

  const int64_t bytes_per_value = bf16 ? 2 : 4;
  return {meter.multiply_adds(), meter.kept_values() * bytes_per_value + meter.kept_other_bytes()};
}

}  // namespace lockstep::models
