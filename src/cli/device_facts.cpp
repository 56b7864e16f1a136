#include "device_facts.h"

#include <fmt/format.h>

#include <ATen/Context.h>

namespace lockstep::cli {
namespace {

const at::CUDAHooksInterface* hooks() {
  return at::Context::hasCUDA() ? &at::detail::getCUDAHooks() : nullptr;
}

}  // namespace

std::string cuda_version() {
  const auto* const cuda = hooks();
  if (cuda == nullptr || !cuda->hasCUDART()) return "";
  const long version = cuda->versionCUDART();
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string cudnn_version() {
  const auto* const cuda = hooks();
  if (cuda == nullptr || !cuda->compiledWithCuDNN()) return "";
  // From 9 on 10000 times the first number, before that 1000 times.
  const long version = cuda->versionRuntimeCuDNN();
  const long first = version >= 90000 ? version / 10000 : version / 1000;
  const long rest = version >= 90000 ? version % 10000 : version % 1000;
  return fmt::format("{}.{}.{}", first, rest / 100, rest % 100);
}

}  // namespace lockstep::cli
