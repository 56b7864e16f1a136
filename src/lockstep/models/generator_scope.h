#pragma once

#include <optional>

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace lockstep::models {

/// Says, while it lives, from which generator the operators of this thread draw that name none: on the CPU
/// from one of the scope's own, because ranks may be threads and share the process's; on a GPU from the
/// device's, as dropout there takes no other, so rank threads must not share the GPU. Scopes of one thread do
/// not nest.
class GeneratorScope {
 public:
  GeneratorScope(at::Device device, uint64_t seed);
  GeneratorScope(const GeneratorScope&) = delete;
  GeneratorScope& operator=(const GeneratorScope&) = delete;
  ~GeneratorScope();

  const at::Generator& generator() const { return generator_; }

 private:
  at::Generator generator_;
  std::optional<c10::impl::IncludeDispatchKeyGuard> included_;
};

}  // namespace lockstep::models
