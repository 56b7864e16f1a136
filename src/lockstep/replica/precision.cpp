#include "lockstep/replica/precision.h"

#include <ATen/autocast_mode.h>

#include "lockstep/base/registry.h"

namespace lockstep::replica {
namespace {

const Registry<Precision>& registry() {
  static const Registry<Precision> precisions("precision", "lockstep bench --help",
                                              {{"fp32", Precision::kFp32}, {"bf16", Precision::kBf16}});
  return precisions;
}

}  // namespace

std::vector<std::string> precision_names() {
  return registry().names();
}

Precision parse_precision(const std::string& name) {
  return registry().get(name);
}

AutocastScope::AutocastScope(Precision precision) : active_(precision == Precision::kBf16) {
  if (!active_) return;
  was_enabled_ = at::autocast::is_autocast_enabled(at::kCPU);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  at::autocast::set_autocast_enabled(at::kCPU, true);
}

AutocastScope::~AutocastScope() {
  if (!active_) return;
  // The cast weights of this step are stale after the optimizer's update.
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kCPU, was_enabled_);
}

}  // namespace lockstep::replica
