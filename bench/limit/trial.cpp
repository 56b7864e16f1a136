#include "trial.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <sys/mman.h>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"

namespace lockstep::limit {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;
using Seconds = std::chrono::duration<double>;

/// A trial whose first runs take this many times as long as the best one so far is given up.
constexpr double kHopeless = 1.5;
constexpr int kRunsToJudge = 2;

double run_s(const Trial& trial, dnnl::stream& stream) {
  const auto begin = std::chrono::steady_clock::now();
  trial.run(stream);
  return Seconds(std::chrono::steady_clock::now() - begin).count();
}

/// oneDNN's reference code covers every shape and type, but is a hundred times slower than its fast code.
bool is_reference(const Trial& trial) {
  return trial.implementation().starts_with("ref");
}

/// The time of the shortest run. A hopeless trial stops after kRunsToJudge runs.
double best_run_s(const Trial& trial, int runs, double best_other_s) {
  dnnl::stream stream(processor());
  // The first run generates code, and is not timed.
  trial.run(stream);
  double best_s = run_s(trial, stream);
  for (int done = 1; done < runs; ++done) {
    if (done >= kRunsToJudge && best_s > kHopeless * best_other_s) break;
    best_s = std::min(best_s, run_s(trial, stream));
  }
  return best_s;
}

/// Size of the pattern that is repeated to fill an operand.
constexpr size_t kPattern_bytes = 1 << 20;

/// Fills with values in [-0.5, 0.5) or, with `ones`, around 1. Their distribution does not matter as long as
/// none is denormal, infinite or NaN, which would change the speed.
void fill(void* data, const memory::desc& desc, bool ones) {
  const size_t bytes = std::min(desc.get_size(), kPattern_bytes);
  uint32_t state = 1;
  const auto next = [&] {
    state = state * 1664525 + 1013904223;
    return static_cast<float>(state >> 8) / static_cast<float>(1 << 24) - 0.5F;
  };
  if (desc.get_data_type() == memory::data_type::f32) {
    auto* values = static_cast<float*>(data);
    for (size_t i = 0; i < bytes / sizeof(float); ++i) values[i] = ones ? 1 + 0.1F * next() : next();
  } else if (desc.get_data_type() == memory::data_type::bf16) {
    auto* values = static_cast<uint16_t*>(data);
    for (size_t i = 0; i < bytes / sizeof(uint16_t); ++i) {
      const float value = ones ? 1 + 0.1F * next() : next();
      uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof bits);
      values[i] = static_cast<uint16_t>(bits >> 16);
    }
  } else {
    return;
  }
  auto* begin = static_cast<std::byte*>(data);
  for (size_t done = bytes; done < desc.get_size(); done += bytes) {
    std::memcpy(begin + done, begin, std::min(bytes, desc.get_size() - done));
  }
}

}  // namespace

const dnnl::engine& processor() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

Pages::Pages(size_t bytes) : bytes_(std::max<size_t>(bytes, 1)) {
  data_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data_ == MAP_FAILED) {
    throw Error("no memory for an operand of " + format_bytes(static_cast<int64_t>(bytes_)),
                "Measure the limit of a smaller batch.");
  }
  // Training's memory has huge pages too if the system grants them. The call fails harmlessly if it does not.
  ::madvise(data_, bytes_, MADV_HUGEPAGE);
  std::memset(data_, 0, bytes_);
}

Pages::~Pages() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

Pages::Pages(Pages&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

memory Trial::operand(const memory::desc& desc, bool ones) {
  return operands_.emplace_back(Operand{{desc, processor(), DNNL_MEMORY_NONE}, ones}).memory;
}

void Trial::allocate() {
  for (size_t i = pages_.size(); i < operands_.size(); ++i) {
    dnnl::memory& operand = operands_[i].memory;
    const memory::desc desc = operand.get_desc();
    const Pages& pages = pages_.emplace_back(desc.get_size());
    fill(pages.data(), desc, operands_[i].ones);
    operand.set_data_handle(pages.data());
  }
}

void Trial::release() {
  pages_.clear();
}

bool Trial::equals(const Trial& other) const {
  return implementation_ == other.implementation_ &&
         std::ranges::equal(operands_, other.operands_, [](const Operand& a, const Operand& b) {
           return a.memory.get_desc() == b.memory.get_desc();
         });
}

void Trial::add(const std::string& implementation, std::function<void()> compute, const Operands& operands) {
  note(implementation, operands);
  steps_.push_back([compute = std::move(compute)](dnnl::stream& /*stream*/) { compute(); });
}

void Trial::note(const std::string& implementation, const Operands& operands) {
  for (const auto& [ignored, operand] : operands)
    bytes_ += static_cast<int64_t>(operand.get_desc().get_size());
  if (!implementation_.empty()) implementation_ += ", ";
  implementation_ += implementation;
}

void Trial::run(dnnl::stream& stream) const {
  for (const Step& step : steps_) step(stream);
  stream.wait();
}

const std::vector<Layout>& plain_layouts() {
  static const std::vector<Layout> kAll{
      {"nhwc", Tag::nhwc}, {"nChw16c", Tag::nChw16c}, {"nChw8c", Tag::nChw8c}};
  return kAll;
}

const std::vector<Layout>& layouts_or_any() {
  static const std::vector<Layout> kAll{
      {"any", Tag::any}, {"nhwc", Tag::nhwc}, {"nChw16c", Tag::nChw16c}, {"nChw8c", Tag::nChw8c}};
  return kAll;
}

const std::vector<Layout>& matrix_layouts() {
  static const std::vector<Layout> kAll{{"any", Tag::any}, {"nc", Tag::nc}};
  return kAll;
}

PartLimit measure_best(Work work, Direction direction, const std::vector<Layout>& layouts,
                       const std::vector<Prepare>& ways, const LimitOptions& options) {
  PartLimit best{.work = work, .direction = direction, .time_s = std::numeric_limits<double>::infinity()};
  std::string refusal;
  std::vector<Trial> tried;
  for (const auto& [name, tag] : layouts) {
    for (const Prepare& prepare : ways) {
      Trial trial;
      try {
        prepare(trial, tag);
      } catch (const dnnl::error& error) {
        refusal = error.message;
        continue;
      }
      // Reference code is measured only if nothing else was found so far.
      if (is_reference(trial) && !best.layout.empty()) continue;
      // "any" may have chosen a layout that is tried under its name as well.
      if (std::ranges::any_of(tried, [&](const Trial& other) { return trial.equals(other); })) continue;
      // Only one trial has memory at a time: the operands of a layer may be gigabytes.
      trial.allocate();
      const double time_s = best_run_s(trial, options.runs, best.time_s);
      trial.release();
      tried.push_back(std::move(trial));
      if (time_s >= best.time_s) continue;
      best.time_s = time_s;
      best.bytes = tried.back().bytes();
      best.layout = name;
      best.implementation = tried.back().implementation();
    }
  }
  if (best.layout.empty()) {
    throw Error(fmt::format("oneDNN cannot compute {} {} in {} here: {}", to_string(work),
                            to_string(direction), options.bf16 ? "bf16" : "fp32", refusal),
                "Measure the limit of fp32.");
  }
  return best;
}

dnnl::primitive_attr ending_of(const Layer& layer) {
  dnnl::primitive_attr attributes;
  if (layer.ending != LayerEnding::kRelu) return attributes;
  dnnl::post_ops after;
  after.append_eltwise(dnnl::algorithm::eltwise_relu, 0, 0);
  attributes.set_post_ops(after);
  return attributes;
}

std::vector<PartLimit> measure_parts(const Layer& layer, const LimitOptions& options) {
  std::vector<PartLimit> parts;
  using enum LayerKind;
  switch (layer.kind) {
    case kConvolution:
      add_convolution(parts, layer, options);
      break;
    case kLinear:
      add_linear(parts, layer, options);
      break;
    case kMaxPool:
    case kAvgPool:
      add_pool(parts, layer, options);
      break;
    case kResponseNorm:
      add_response_norm(parts, layer, options);
      break;
  }
  // A ReLU without normalization is fused into the forward primitive (ending_of()); its backward pass is
  // separate.
  if (has_norm(layer.ending)) add_norm(parts, layer, options);
  if (layer.ending == LayerEnding::kRelu) add_relu_backward(parts, layer, options);
  return parts;
}

}  // namespace lockstep::limit
