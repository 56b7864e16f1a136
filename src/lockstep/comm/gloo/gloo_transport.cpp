#include <algorithm>
#include <cstring>
#include <memory>

#include <fmt/format.h>
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>
#include <gloo/reduce.h>

#include "lockstep/comm/element_reduce.h"
#include "lockstep/comm/gloo/gloo_context.h"
#include "lockstep/comm/gloo/gloo_message.h"
#include "lockstep/comm/plugin.h"
#include "lockstep/comm/transport.h"

namespace lockstep::comm {
namespace {

uint8_t* bytes_of(const Buffer& buffer) {
  return static_cast<uint8_t*>(buffer.data);
}

/// Calls `call` with a pointer to unsigned integers as wide as the elements: Gloo needs only the width, since
/// the reduction is our own function.
template <typename Call>
void with_width(const Buffer& buffer, Call call) {
  switch (element_bytes(buffer.dtype)) {
    case 1:
      return call(static_cast<uint8_t*>(buffer.data));
    case 2:
      return call(static_cast<uint16_t*>(buffer.data));
    case 4:
      return call(static_cast<uint32_t*>(buffer.data));
    default:
      return call(static_cast<uint64_t*>(buffer.data));
  }
}

/// As in Gloo's all-reduce. On two cores a quarter of it takes twice as long: each segment wakes a thread.
constexpr size_t kLargestSegmentBytes = 1 << 20;
/// Segments in flight at once: one travels while the one before is being combined.
constexpr size_t kInFlight = 2;

/// How a part is cut. At least kInFlight segments: a segment is passed on `count` steps after it arrived, and
/// only the last kInFlight arrivals may still be uncombined then.
struct Segments {
  size_t count;
  size_t elements;

  Segments(size_t part_elements, size_t width) {
    const size_t largest = kLargestSegmentBytes / width;
    count = std::max(kInFlight, (part_elements + largest - 1) / largest);
    elements = (part_elements + count - 1) / count;
  }
};

/// Collective. reduce_scatter over a ring: each part travels once around the ranks, collecting their
/// contributions, and ends at its owner; (size - 1) / size of the input passes each link. `tag` must be new.
void gloo_ring_reduce_scatter(gloo::Context& context, const Collective& collective, uint32_t tag,
                              Deadline deadline) {
  const Buffer& input = collective.input;
  const Buffer& output = collective.output;
  const size_t size = size_t(context.size);
  const size_t rank = size_t(context.rank);
  const int next = int((rank + 1) % size);
  const int previous = int((rank + size - 1) % size);
  const size_t part = output.count;
  const size_t width = element_bytes(input.dtype);
  const Segments segments(part, width);
  const ReduceFunction combine = reduce_function(input.dtype, collective.op);
  // A first byte that none of Gloo's own collectives uses (gloo/types.h).
  const uint64_t slot = uint64_t{0x40} << 56 | uint64_t{tag} << 24;

  const std::unique_ptr<char[]> scratch(new char[kInFlight * segments.elements * width]);
  const auto own = context.createUnboundBuffer(input.data, input.bytes());
  const auto arriving = context.createUnboundBuffer(scratch.get(), kInFlight * segments.elements * width);

  // Step i of the ring sends segment i % count of part (rank - 1 - i / count) and receives the same segment
  // of the part before it. With 3 ranks, rank r sends in these rounds (of `count` steps each):
  //
  //   round 0   part r-1, its own contribution    -> rank r+1 adds it to its part r-1
  //   round 1   part r-2, two ranks' sum by now   -> rank r+1, which owns part r-2 = r+1: done
  struct Piece {
    size_t offset;  // bytes in input
    size_t count;   // elements
  };
  const auto piece = [&](size_t i, size_t parts_back) -> Piece {
    const size_t which = (rank + 2 * size - parts_back - i / segments.count) % size;
    const size_t first = std::min(part, i % segments.count * segments.elements);
    return {(which * part + first) * width, std::min(segments.elements, part - first)};
  };
  const auto scratch_offset = [&](size_t i) { return i % kInFlight * segments.elements * width; };

  const size_t steps = (size - 1) * segments.count;
  for (size_t i = 0; i < steps + kInFlight; ++i) {
    if (i >= kInFlight) {
      const size_t done = i - kInFlight;
      const Piece received = piece(done, 2);
      if (received.count > 0) {
        arriving->waitRecv(nullptr, milliseconds_left(deadline));
        char* place = static_cast<char*>(input.data) + received.offset;
        combine(place, place, scratch.get() + scratch_offset(done), received.count);
      }
      if (piece(done, 1).count > 0) own->waitSend(nullptr, milliseconds_left(deadline));
    }
    if (i < steps) {
      const Piece received = piece(i, 2);
      const Piece sent = piece(i, 1);
      if (received.count > 0) arriving->recv(previous, slot, scratch_offset(i), received.count * width);
      if (sent.count > 0) own->send(next, slot, sent.offset, sent.count * width);
    }
  }
  const char* mine = static_cast<const char*>(input.data) + rank * part * width;
  if (mine != output.data) std::memcpy(output.data, mine, output.bytes());
}

class GlooTransport final : public Transport {
 public:
  GlooTransport(Store& store, std::string prefix, std::shared_ptr<GlooDevice> device,
                std::shared_ptr<gloo::Context> context)
      : store_(store), prefix_(std::move(prefix)), device_(std::move(device)), context_(std::move(context)) {}

  int rank() const override { return context_->rank; }
  int size() const override { return context_->size; }
  std::string backend() const override { return "gloo"; }

  void run(const Collective& collective, Deadline by) override {
    // No data: every rank skips the collective.
    const bool is_barrier = collective.kind == Collective::Kind::kBarrier;
    if (collective.bytes() == 0 && !is_barrier) return;
    switch (collective.kind) {
      case Collective::Kind::kAllReduce:
        return all_reduce(collective, by);
      case Collective::Kind::kReduce:
        return reduce(collective, by);
      case Collective::Kind::kBroadcast:
        return broadcast(collective, by);
      case Collective::Kind::kAllGather:
        return all_gather(collective, by);
      case Collective::Kind::kReduceScatter:
        return reduce_scatter(collective, by);
      case Collective::Kind::kAllToAll:
        return all_to_all(collective, by);
      case Collective::Kind::kBarrier:
        return barrier(by);
    }
  }

  bool keeps_deadline(const Collective&) const override { return true; }

  std::shared_ptr<Transport> split(std::span<const int> ranks, Deadline by) override {
    const std::string prefix = fmt::format("{}/part{}", prefix_, splits_++);
    // The prefix counts on all ranks, members or not, so that the next split has the same one everywhere.
    const auto mine = std::find(ranks.begin(), ranks.end(), rank());
    if (mine == ranks.end() || ranks.size() == 1) return nullptr;
    return translated([&] {
      auto context =
          connect_gloo_context(store_, prefix, int(mine - ranks.begin()), int(ranks.size()), *device_, by);
      return std::make_shared<GlooTransport>(store_, prefix, device_, std::move(context));
    });
  }

  std::shared_ptr<Operation> start(const Message& message, Deadline by) override {
    auto operation = std::make_shared<GlooMessage>(message, *context_, by, waiters_);
    operation->start(*context_);
    messages_.add(operation);
    return operation;
  }

  bool messages_idle() override { return messages_.empty(); }

  void abort(const Failure& why) noexcept override {
    // First the connections: a message aborted while they are up could still arrive in its buffer.
    break_gloo_connections(*context_);
    for (const auto& message : messages_.take()) message->abort(why);
  }

  void close() noexcept override { waiters_->stop(); }

  double helper_cpu_s() const override { return device_->cpu_s() + waiters_->cpu_s(); }

 private:
  template <typename Options, typename Call>
  void run_with(Options& options, Deadline by, Call call) {
    options.setTag(next_tag_++);
    options.setTimeout(milliseconds_left(by));
    translated([&] { call(options); });
  }

  void all_reduce(const Collective& collective, Deadline by) {
    gloo::AllreduceOptions options(context_);
    with_width(collective.output, [&](auto* data) { options.setOutput(data, collective.output.count); });
    options.setReduceFunction(reduce_function(collective.output.dtype, collective.op));
    run_with(options, by, [](auto& ready) { gloo::allreduce(ready); });
  }

  void reduce(const Collective& collective, Deadline by) {
    gloo::ReduceOptions options(context_);
    with_width(collective.output, [&](auto* data) { options.setOutput(data, collective.output.count); });
    options.setRoot(collective.root);
    options.setReduceFunction(reduce_function(collective.output.dtype, collective.op));
    run_with(options, by, [](auto& ready) { gloo::reduce(ready); });
  }

  void broadcast(const Collective& collective, Deadline by) {
    gloo::BroadcastOptions options(context_);
    options.setOutput(bytes_of(collective.output), collective.output.bytes());
    options.setRoot(collective.root);
    run_with(options, by, [](auto& ready) { gloo::broadcast(ready); });
  }

  void all_gather(const Collective& collective, Deadline by) {
    const Buffer& input = collective.input;
    const Buffer& output = collective.output;
    gloo::AllgatherOptions options(context_);
    // Without an input, Gloo takes this rank's part of the output for it.
    const bool in_place = bytes_of(input) == bytes_of(output) + size_t(rank()) * input.bytes();
    if (!in_place) options.setInput(bytes_of(input), input.bytes());
    options.setOutput(bytes_of(output), output.bytes());
    run_with(options, by, [](auto& ready) { gloo::allgather(ready); });
  }

  void reduce_scatter(const Collective& collective, Deadline by) {
    translated([&] { gloo_ring_reduce_scatter(*context_, collective, next_tag_++, by); });
  }

  void all_to_all(const Collective& collective, Deadline by) {
    gloo::AlltoallOptions options(context_);
    options.setInput(bytes_of(collective.input), collective.input.bytes());
    options.setOutput(bytes_of(collective.output), collective.output.bytes());
    run_with(options, by, [](auto& ready) { gloo::alltoall(ready); });
  }

  void barrier(Deadline by) {
    gloo::BarrierOptions options(context_);
    run_with(options, by, [](auto& ready) { gloo::barrier(ready); });
  }

  Store& store_;
  const std::string prefix_;
  const std::shared_ptr<GlooDevice> device_;
  const std::shared_ptr<gloo::Context> context_;
  const std::shared_ptr<WaiterThreads> waiters_ = std::make_shared<WaiterThreads>();
  // Used by one collective at a time; the same on every rank, since all issue the same ones.
  uint32_t next_tag_ = 0;
  int splits_ = 0;
  PendingMessages<GlooMessage> messages_;
};

/// Collective over the ranks that are to join, at least two. Throws TimeoutError, CommError, ConfigError.
std::shared_ptr<Transport> connect_gloo_transport(const ConnectOptions& options) {
  const Deadline deadline = deadline_after(options.timeout);
  return translated([&]() -> std::shared_ptr<Transport> {
    // A rank's n-th connect with a store meets the n-th of the others.
    const int64_t turn = options.store->add(fmt::format("gloo/turn/{}", options.rank), 1);
    const std::string prefix = fmt::format("gloo/{}", turn);
    auto device = std::make_shared<GlooDevice>(*options.store, prefix, options, deadline);
    auto context =
        connect_gloo_context(*options.store, prefix, options.rank, options.size, *device, deadline);
    return std::make_shared<GlooTransport>(*options.store, prefix, std::move(device), std::move(context));
  });
}

Communicator* connect_gloo(const ConnectOptions& options) {
  return connect_transport(connect_gloo_transport, options).release();
}

constexpr BackendPlugin kPlugin = {
    kPluginAbiVersion,
    "Gloo " LOCKSTEP_VERSION_TEXT(GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR, GLOO_VERSION_PATCH), connect_gloo};

}  // namespace
}  // namespace lockstep::comm

extern "C" [[gnu::visibility("default")]] const lockstep::comm::BackendPlugin* lockstep_backend_plugin() {
  return &lockstep::comm::kPlugin;
}
