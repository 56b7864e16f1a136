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

void ArgumentChecks::buffer(const char* call, const Buffer& buffer) const {
  if (buffer.count > 0 && buffer.data == nullptr) {
    throw ConfigError(fmt::format("{} on {}: {} elements at a null address", call, where_, buffer.count));
  }
  if (buffer.device == DeviceKind::kCuda && !capabilities_.cuda_buffers) {
    throw ConfigError(
        fmt::format("{} on {}: {} bytes of CUDA memory, but this communicator takes host memory only", call,
                    where_, buffer.bytes()),
        "copy the data to the host first, connect with the rank's GPU (ConnectOptions::cuda_device), or use "
        "the nccl backend");
  }
  if (buffer.device == DeviceKind::kCpu && !capabilities_.cpu_buffers) {
    throw ConfigError(
        fmt::format("{} on {}: {} bytes of host memory, but this communicator takes CUDA memory only", call,
                    where_, buffer.bytes()),
        "copy the data to the GPU first, or say it over a communicator of another backend");
  }
}

void ArgumentChecks::root(const char* call, int root) const {
  if (root < 0 || root >= size_) {
    throw ConfigError(fmt::format("{} on {}: root {} is not in [0, {})", call, where_, root, size_));
  }
}

void ArgumentChecks::same_dtype(const char* call, const Buffer& input, const Buffer& output) const {
  buffer(call, input);
  buffer(call, output);
  if (input.device != output.device) {
    throw ConfigError(fmt::format("{} on {}: input is {} memory, output is {} memory", call, where_,
                                  to_string(input.device), to_string(output.device)));
  }
  if (input.dtype != output.dtype) {
    throw ConfigError(fmt::format("{} on {}: input is {}, output is {}", call, where_, to_string(input.dtype),
                                  to_string(output.dtype)));
  }
}

void ArgumentChecks::all_gather(const Buffer& input, const Buffer& output) const {
  same_dtype("all_gather", input, output);
  if (output.count != input.count * size_t(size_)) {
    throw ConfigError(fmt::format("all_gather on {}: output holds {} elements, {} x {} expected", where_,
                                  output.count, size_, input.count));
  }
  const auto* own_place = static_cast<const char*>(output.data) + input.bytes() * size_t(rank_);
  if (overlap(input, output) && input.data != own_place) {
    throw ConfigError(
        fmt::format("all_gather on {}: input overlaps output but is not the rank's own place in it", where_));
  }
}

void ArgumentChecks::reduce_scatter(const Buffer& input, const Buffer& output) const {
  same_dtype("reduce_scatter", input, output);
  if (input.count != output.count * size_t(size_)) {
    throw ConfigError(fmt::format("reduce_scatter on {}: input holds {} elements, {} x {} expected", where_,
                                  input.count, size_, output.count));
  }
  const auto* own_place = static_cast<const char*>(input.data) + output.bytes() * size_t(rank_);
  if (overlap(input, output) && output.data != own_place) {
    throw ConfigError(fmt::format(
        "reduce_scatter on {}: output overlaps input but is not the rank's own place in it", where_));
  }
}

void ArgumentChecks::all_to_all(const Buffer& input, const Buffer& output) const {
  same_dtype("all_to_all", input, output);
  if (input.count != output.count || input.count % size_t(size_) != 0) {
    throw ConfigError(
        fmt::format("all_to_all on {}: input holds {} and output {} elements; equal multiples of {} expected",
                    where_, input.count, output.count, size_));
  }
  if (overlap(input, output))
    throw ConfigError(fmt::format("all_to_all on {}: input overlaps output", where_));
}

void ArgumentChecks::peer(const char* call, int peer) const {
  if (peer < 0 || peer >= size_ || peer == rank_) {
    throw ConfigError(
        fmt::format("{} on {}: {} is not the number of another rank in [0, {})", call, where_, peer, size_));
  }
}

void ArgumentChecks::message(const char* call, const Buffer& buffer, int peer, int tag) const {
  this->buffer(call, buffer);
  this->peer(call, peer);
  this->tag(call, tag);
}

void ArgumentChecks::receive_any() const {
  if (!capabilities_.receive_any) {
    throw ConfigError(fmt::format("receive_any on {}: this backend cannot receive from just anybody", where_),
                      "name the peer, or use the gloo or mpi backend");
  }
}

void ArgumentChecks::tag(const char* call, int tag) const {
  if (tag < 0 || tag >= kTagLimit) {
    throw ConfigError(fmt::format("{} on {}: tag {} is not in [0, {})", call, where_, tag, kTagLimit));
  }
}

void ArgumentChecks::split(std::span<const int> ranks) const {
  bool valid = !ranks.empty() && ranks.front() >= 0 && ranks.back() < size_;
  for (size_t i = 1; i < ranks.size(); ++i) valid = valid && ranks[i - 1] < ranks[i];
  if (!valid) {
    throw ConfigError(fmt::format("split on {}: [{}] is not an ascending list of ranks in [0, {})", where_,
                                  fmt::join(ranks.begin(), ranks.end(), ", "), size_));
  }
}

}  // namespace lockstep::comm
