#include "lockstep/train/rows/row_gpus.h"

#include <numeric>

#include <fmt/format.h>

#include <ATen/Context.h>

#include "lockstep/train/rows/device_rules.h"

namespace lockstep::train {
namespace {

/// The number of the GPUs that the process of one rank trains with.
int gpus_of(const RowPlan& row) {
  if (!on_gpu(row)) return 0;
  return traits_of(row).one_process ? row.ranks : 1;
}

/// The precision in which fp32 tensors are multiplied; all of their bits unless LibTorch was told otherwise.
std::string precision_of(at::Float32Op op) {
  const at::Float32Precision precision = at::globalContext().float32Precision(at::Float32Backend::CUDA, op);
  return precision == at::Float32Precision::NONE ? "ieee" : at::precision2str(precision);
}

}  // namespace

RowGpuWatch::RowGpuWatch(const RowPlan& row) {
  for (int gpu = 0; gpu < gpus_of(row); ++gpu) {
    topology::GpuWatch::Sampler sampler = topology::gpu_sampler(row.device_index + gpu);
    watches_.push_back(sampler ? std::make_unique<topology::GpuWatch>(std::move(sampler)) : nullptr);
  }
}

std::vector<topology::GpuUse> RowGpuWatch::finish(std::span<const double> step_s) {
  const double duration_s = std::accumulate(step_s.begin(), step_s.end(), 0.0);
  std::vector<topology::GpuUse> all;
  for (const auto& watch : watches_) all.push_back(watch ? watch->finish(duration_s) : topology::GpuUse());
  return all;
}

std::string device_settings(const RowPlan& row) {
  if (!on_gpu(row)) return "";
  const at::Context& context = at::globalContext();
  std::string text = fmt::format("fp32 matrix products in {}, convolutions in {}",
                                 precision_of(at::Float32Op::MATMUL), precision_of(at::Float32Op::CONV));
  if (context.benchmarkCuDNN()) text += ", cuDNN autotuned";
  if (context.deterministicCuDNN() || context.deterministicAlgorithms()) text += ", deterministic";
  return text;
}

}  // namespace lockstep::train
