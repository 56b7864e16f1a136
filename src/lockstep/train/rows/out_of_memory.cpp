#include "lockstep/train/rows/out_of_memory.h"

#include <algorithm>

#include <fmt/format.h>

#include <ATen/DeviceAccelerator.h>
#include <c10/util/Exception.h>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"
#include "lockstep/train/rows/device_rules.h"

namespace lockstep::train {
namespace {

/// Safety factor of the advised batch, for fragmentation and for memory that the estimate does not know of.
constexpr double kMargin = 0.9;

/// The most bytes that tensors held at a time.
int64_t most_used_bytes(const RowPlan& row) {
  using c10::CachingAllocator::StatType;
  const auto stats = at::accelerator::getDeviceStats(static_cast<c10::DeviceIndex>(row.device_index));
  return stats.allocated_bytes[static_cast<size_t>(StatType::AGGREGATE)].peak;
}

/// LibTorch's message without its advice on settings that the user of lockstep cannot change.
std::string first_sentences(const std::string& text) {
  const size_t end = text.find(" Of the allocated memory");
  return text.substr(0, end);
}

}  // namespace

int fitting_batch(const RowPlan& row, const MemoryEstimate& estimate, int64_t used_bytes) {
  // The memory in use when it ran out held the parameters and as many activations as fit.
  const auto room_bytes = static_cast<double>(used_bytes - estimate.parameter_bytes);
  const double share =
      std::min(1.0, room_bytes / static_cast<double>(std::max<int64_t>(1, estimate.activation_bytes)));
  return std::clamp(static_cast<int>(kMargin * share * row.batch_per_rank), 0, row.batch_per_rank - 1);
}

void with_fitting_batch(const RowPlan& row, const std::function<void()>& work) {
  if (!on_gpu(row)) return work();
  try {
    work();
  } catch (const c10::OutOfMemoryError& error) {
    const int64_t used_bytes = most_used_bytes(row);
    const int fitting = fitting_batch(row, estimate_memory(row), used_bytes);
    throw Error(
        fmt::format("{} does not fit into the memory of its GPU, of which tensors had {}: {}", row.label(),
                    format_bytes(used_bytes), first_sentences(error.what_without_backtrace())),
        fitting > 0 ? fmt::format("Use --batch {} or less, or a smaller --image-size.", fitting)
                    : std::string("Use a smaller model or --image-size: not even a batch of 1 would fit."));
  }
}

}  // namespace lockstep::train
