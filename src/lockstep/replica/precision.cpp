#include "lockstep/replica/precision.h"

#include <algorithm>
#include <mutex>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ATen/Context.h>
// Includes all of LibTorch's operations, 4 s of compiling; no other file does.
#include <ATen/autocast_mode.h>

#include "lockstep/base/error.h"
#include "lockstep/base/registry.h"

namespace lockstep::replica {
namespace {

struct PrecisionInfo {
  Precision precision;
  bool needs_gpu;
};

const Registry<PrecisionInfo>& registry() {
  static const Registry<PrecisionInfo> precisions("precision", "lockstep bench --help",
                                                  {{"fp32", {Precision::kFp32, false}},
                                                   {"tf32", {Precision::kTf32, true}},
                                                   {"bf16", {Precision::kBf16, false}},
                                                   {"bf16_pure", {Precision::kBf16Pure, true}},
                                                   {"fp16", {Precision::kFp16, true}}});
  return precisions;
}

/// Suppresses LibTorch's warnings about its deprecated switches. They set the new ones too, while setting
/// only the new ones makes LibTorch's CUDA library report a contradiction.
class Quiet final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& /*warning*/) override {}
};

bool computes_in_half(Precision precision) {
  return precision == Precision::kBf16 || precision == Precision::kBf16Pure || precision == Precision::kFp16;
}

}  // namespace

std::vector<std::string> precision_names() {
  return registry().names();
}

Precision parse_precision(const std::string& name) {
  return registry().get(name).precision;
}

std::vector<std::string> precision_names(c10::DeviceType device) {
  std::vector<std::string> names;
  for (const auto& [name, info] : registry().entries()) {
    if (!info.needs_gpu || device != c10::DeviceType::CPU) names.push_back(name);
  }
  return names;
}

void check_precision(const std::string& name, c10::DeviceType device) {
  parse_precision(name);
  const std::vector<std::string> known = precision_names(device);
  if (std::ranges::find(known, name) != known.end()) return;
  throw ConfigError(fmt::format("--precision {} needs a GPU, and --device is {}", name,
                                c10::DeviceTypeName(device, /*lower_case=*/true)),
                    fmt::format("Use one of {}, or --device cuda.", fmt::join(known, ", ")));
}

int bytes_per_number(Precision precision) {
  return computes_in_half(precision) ? 2 : 4;
}

bool needs_loss_scale(Precision precision) {
  return precision == Precision::kFp16;
}

bool keeps_weight_copies(Precision precision) {
  return precision == Precision::kBf16Pure;
}

void set_up_precision(Precision precision, c10::DeviceType device, Algorithms algorithms) {
  if (device == c10::DeviceType::CPU) return;
  // Ranks may be threads, and the switches are plain variables of the process.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  Quiet quiet;
  const c10::WarningUtils::WarningHandlerGuard guard(&quiet);
  at::Context& context = at::globalContext();
  context.setAllowTF32CuBLAS(precision == Precision::kTf32);
  context.setAllowTF32CuDNN(precision == Precision::kTf32);
  context.setBenchmarkCuDNN(algorithms == Algorithms::kFastest);
  context.setDeterministicCuDNN(algorithms == Algorithms::kRepeatable);
}

bool is_autocast_on(c10::DeviceType device) {
  return at::autocast::is_autocast_enabled(device);
}

AutocastScope::AutocastScope(Precision precision, c10::DeviceType device)
    : active_(computes_in_half(precision)), device_(device) {
  if (!active_) return;
  was_enabled_ = at::autocast::is_autocast_enabled(device_);
  at::autocast::set_autocast_dtype(device_, precision == Precision::kFp16 ? at::kHalf : at::kBFloat16);
  at::autocast::set_autocast_enabled(device_, true);
}

AutocastScope::~AutocastScope() {
  if (!active_) return;
  // The cached casts of weights are stale after the optimizer's update.
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, was_enabled_);
}

AutocastType::AutocastType(c10::DeviceType device)
    : device_(device), type_(at::autocast::get_autocast_dtype(device)) {}

void AutocastType::take_over() const {
  at::autocast::set_autocast_dtype(device_, type_);
}

}  // namespace lockstep::replica
