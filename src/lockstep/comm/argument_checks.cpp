#include "lockstep/comm/argument_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

bool overlap(const Buffer& a, const Buffer& b) {
  const auto* a_begin = static_cast<const char*>(a.data);
  const auto* b_begin = static_cast<const char*>(b.data);
  return a.bytes() > 0 && b.bytes() > 0 && a_begin < b_begin + b.bytes() && b_begin < a_begin + a.bytes();
}

}  // namespace

ArgumentChecks::ArgumentChecks(int rank, int size, Capabilities capabilities, std::string where)
    : rank_(rank), size_(size), capabilities_(capabilities), where_(std::move(where)) {}

void ArgumentChecks::refuse(const char* call, const std::string& why, const std::string& advice) const {
  throw ConfigError(fmt::format("{} on {}: {}", call, where_, why), advice);
}

void ArgumentChecks::check_buffer(const char* call, const Buffer& buffer) const {
  if (buffer.count > 0 && buffer.data == nullptr) {
    refuse(call, fmt::format("{} elements at a null address", buffer.count));
  }
  if (buffer.device == DeviceKind::kCuda && !capabilities_.cuda_buffers) {
    refuse(
        call,
        fmt::format("{} bytes of CUDA memory, but this communicator takes host memory only", buffer.bytes()),
        "copy the data to the host first, connect with the rank's GPU (ConnectOptions::cuda_device), or "
        "use the nccl backend");
  }
  if (buffer.device == DeviceKind::kCpu && !capabilities_.cpu_buffers) {
    refuse(
        call,
        fmt::format("{} bytes of host memory, but this communicator takes CUDA memory only", buffer.bytes()),
        "copy the data to the GPU first, or use a communicator of another backend");
  }
}

void ArgumentChecks::check(const Collective& collective) const {
  if (collective.kind == Collective::Kind::kBarrier) return;
  const CollectiveTraits& traits = collective.traits();
  check_buffer(traits.name, collective.input);
  // Kinds that work in place have the same buffer twice.
  if (!traits.in_place) check_alike(traits.name, collective.input, collective.output);
  if (traits.rooted() && (collective.root < 0 || collective.root >= size_)) {
    refuse(traits.name, fmt::format("root {} is not in [0, {})", collective.root, size_));
  }
  if (traits.input_parts && traits.output_parts) {
    check_exchange(collective);
  } else if (traits.input_parts || traits.output_parts) {
    check_part_of_whole(collective);
  }
}

void ArgumentChecks::check_alike(const char* call, const Buffer& input, const Buffer& output) const {
  check_buffer(call, output);
  if (input.device != output.device) {
    refuse(call, fmt::format("input is {} memory, output is {} memory", to_string(input.device),
                             to_string(output.device)));
  }
  if (input.dtype != output.dtype) {
    refuse(call, fmt::format("input is {}, output is {}", to_string(input.dtype), to_string(output.dtype)));
  }
}

/// all_gather and reduce_scatter: one buffer holds a part per rank, the other is one part.
void ArgumentChecks::check_part_of_whole(const Collective& collective) const {
  const bool gathers = collective.traits().output_parts;
  const Buffer& whole = gathers ? collective.output : collective.input;
  const Buffer& part = gathers ? collective.input : collective.output;
  const char* const whole_name = gathers ? "output" : "input";
  const char* const part_name = gathers ? "input" : "output";
  if (whole.count != part.count * size_t(size_)) {
    refuse(collective.name(),
           fmt::format("{} holds {} elements, {} x {} expected", whole_name, whole.count, size_, part.count));
  }
  // In place means exactly there: any other overlap would be overwritten while it is still read.
  const auto* own_part = static_cast<const char*>(whole.data) + part.bytes() * size_t(rank_);
  if (overlap(part, whole) && part.data != own_part) {
    refuse(collective.name(),
           fmt::format("{} overlaps {} but is not the rank's own part of it", part_name, whole_name));
  }
}

/// all_to_all: both buffers hold a part per rank.
void ArgumentChecks::check_exchange(const Collective& collective) const {
  const Buffer& input = collective.input;
  const Buffer& output = collective.output;
  if (input.count != output.count || input.count % size_t(size_) != 0) {
    refuse(collective.name(),
           fmt::format("input holds {} and output {} elements; equal multiples of {} expected", input.count,
                       output.count, size_));
  }
  if (overlap(input, output)) refuse(collective.name(), "input overlaps output");
}

void ArgumentChecks::check(const Message& message) const {
  const char* const call = message.name();
  const bool any_peer = message.kind == Message::Kind::kReceiveAny;
  if (any_peer && !capabilities_.receive_any) {
    refuse(call, "this backend can only receive from a given rank",
           "name the peer, or use the gloo or mpi backend");
  }
  // A backend without receive_any is refused before its arguments are checked.
  check_buffer(call, message.buffer);
  const bool has_peer =
      any_peer ? size_ > 1 : message.peer >= 0 && message.peer < size_ && message.peer != rank_;
  if (!has_peer) {
    refuse(call, fmt::format("{} is not the number of another rank in [0, {})", message.peer, size_));
  }
  if (message.tag < 0 || message.tag >= kTagLimit) {
    refuse(call, fmt::format("tag {} is not in [0, {})", message.tag, kTagLimit));
  }
}

void ArgumentChecks::check_split(std::span<const int> ranks) const {
  // Ascending and within both ends means that every rank between is in range too, and none is twice.
  bool valid = !ranks.empty() && ranks.front() >= 0 && ranks.back() < size_;
  for (size_t i = 1; i < ranks.size(); ++i) valid = valid && ranks[i - 1] < ranks[i];
  if (!valid) {
    refuse("split", fmt::format("[{}] is not an ascending list of ranks in [0, {})",
                                fmt::join(ranks.begin(), ranks.end(), ", "), size_));
  }
}

}  // namespace lockstep::comm
