#include "lockstep/train/step/kernel_recorder.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <set>

#include <fmt/format.h>

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

namespace profiler = torch::autograd::profiler;
namespace impl = torch::profiler::impl;
using impl::ActivityType;

std::set<ActivityType> activities_of(c10::Device device) {
  return {device.is_cpu() ? ActivityType::CPU : ActivityType::CUDA};
}

bool is_of(const profiler::KinetoEvent& event, c10::Device device) {
  if (event.deviceType() != device.type() || event.isHiddenEvent() || event.durationNs() == 0) return false;
  return device.is_cpu() || event.deviceIndex() == device.index();
}

/// The profiler's clock (the date) minus the steady clock that stamps steps. Integers, because seconds since
/// 1970 leave a double a resolution of a quarter of a microsecond.
int64_t date_ahead_ns() {
  const double before_s = now_s();
  const auto date = std::chrono::system_clock::now().time_since_epoch();
  const double after_s = now_s();
  return std::chrono::nanoseconds(date).count() - std::llround(1e9 * (before_s + after_s) / 2);
}

}  // namespace

KernelRecorder::KernelRecorder(c10::Device device) : device_(device) {
  const impl::ProfilerConfig config(impl::ProfilerState::KINETO);
  try {
    profiler::prepareProfiler(config, activities_of(device));
    profiler::enableProfiler(config, activities_of(device));
  } catch (const c10::Error& error) {
    throw Error(fmt::format("LibTorch's profiler does not start: {}", error.what_without_backtrace()),
                "Leave out --trace; --breakdown alone does not need it.");
  }
}

KernelRecorder::~KernelRecorder() {
  if (!recording_) return;
  try {
    profiler::disableProfiler();
  } catch (const std::exception&) {
    // A recording that is cut short has another error to report.
  }
}

std::vector<measure::KernelSpan> KernelRecorder::finish() {
  recording_ = false;
  const int64_t ahead_ns = date_ahead_ns();
  const std::unique_ptr<profiler::ProfilerResult> result = profiler::disableProfiler();
  std::vector<measure::KernelSpan> spans;
  for (const profiler::KinetoEvent& event : result->events()) {
    if (!is_of(event, device_)) continue;
    const double begin_s = 1e-9 * static_cast<double>(static_cast<int64_t>(event.startNs()) - ahead_ns);
    spans.push_back({.name = event.name(),
                     .begin_s = begin_s,
                     .end_s = begin_s + 1e-9 * static_cast<double>(event.durationNs()),
                     .queue = event.deviceResourceId()});
  }
  std::ranges::sort(spans, {}, &measure::KernelSpan::begin_s);
  return spans;
}

}  // namespace lockstep::train
