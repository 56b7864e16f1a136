#include "lockstep/train/job/versions.h"

#include <fmt/format.h>

#include <ATen/Context.h>
#include <torch/version.h>

namespace lockstep::train {
namespace {

const at::CUDAHooksInterface* cuda_hooks() {
  return at::Context::hasCUDA() ? &at::detail::getCUDAHooks() : nullptr;
}

}  // namespace

std::string lockstep_version() {
  return LOCKSTEP_VERSION;
}

std::string torch_version() {
  return fmt::format("{}.{}.{}", TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR, TORCH_VERSION_PATCH);
}

std::string version_text() {
  return fmt::format("lockstep {} (LibTorch {})", lockstep_version(), torch_version());
}

std::string cuda_version() {
  const auto* const cuda = cuda_hooks();
  if (cuda == nullptr || !cuda->hasCUDART()) return "";
  const long version = cuda->versionCUDART();
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string cudnn_version() {
  const auto* const cuda = cuda_hooks();
  if (cuda == nullptr || !cuda->compiledWithCuDNN()) return "";
  // cuDNN counts the major version in units of 10,000 since version 9, in units of 1,000 before.
  const long version = cuda->versionRuntimeCuDNN();
  const long unit = version >= 90000 ? 10000 : 1000;
  const long rest = version % unit;
  return fmt::format("{}.{}.{}", version / unit, rest / 100, rest % 100);
}

}  // namespace lockstep::train
