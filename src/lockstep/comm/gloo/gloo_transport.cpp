#include <algorithm>
#include <mutex>
#include <vector>

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
#include "lockstep/comm/gloo/gloo_device.h"
#include "lockstep/comm/gloo/gloo_message.h"
#include "lockstep/comm/gloo/gloo_reduce_scatter.h"
#include "lockstep/comm/plugin.h"
#include "lockstep/comm/queued_communicator.h"

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

  std::shared_ptr<Transport> split(std::span<const int> ranks, Deadline by) override {
    const std::string prefix = fmt::format("{}/part{}", prefix_, splits_++);
    // The prefix counts on all ranks, members or not, so that the next split has the same one everywhere.
    const auto mine = std::find(ranks.begin(), ranks.end(), rank());
    if (mine == ranks.end() || ranks.size() == 1) return nullptr;
    return translated([&] {
      auto context = connect_gloo_context(store_, prefix, int(mine - ranks.begin()), int(ranks.size()),
                                          device_->device(), by);
      return std::make_shared<GlooTransport>(store_, prefix, device_, std::move(context));
    });
  }

  std::shared_ptr<Operation> start(const Message& message, Deadline by) override {
    auto operation = std::make_shared<GlooMessage>(message, *context_, by, waiters_);
    operation->start(*context_);
    std::lock_guard lock(mutex_);
    forget_finished();
    messages_.push_back(operation);
    return operation;
  }

  bool messages_idle() override {
    std::lock_guard lock(mutex_);
    forget_finished();
    return messages_.empty();
  }

  void abort(const Failure& why) noexcept override {
    // First the connections: a message aborted while they are up could still arrive in its buffer.
    break_gloo_connections(*context_);
    std::vector<std::shared_ptr<GlooMessage>> messages;
    {
      std::lock_guard lock(mutex_);
      messages.swap(messages_);
    }
    for (const auto& message : messages) message->abort(why);
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

  void forget_finished() {
    std::erase_if(messages_, [](const auto& message) { return message->has_outcome(); });
  }

  Store& store_;
  const std::string prefix_;
  const std::shared_ptr<GlooDevice> device_;
  const std::shared_ptr<gloo::Context> context_;
  const std::shared_ptr<WaiterThreads> waiters_ = std::make_shared<WaiterThreads>();
  // Used on the progress thread only; the same on every rank, since all issue the same collectives.
  uint32_t next_tag_ = 0;
  int splits_ = 0;
  std::mutex mutex_;
  std::vector<std::shared_ptr<GlooMessage>> messages_;
};

/// Collective over the ranks that are to join, at least two. Throws TimeoutError, CommError, ConfigError.
std::shared_ptr<Transport> connect_gloo_transport(const ConnectOptions& options) {
  const Deadline deadline = deadline_after(options.timeout);
  return translated([&]() -> std::shared_ptr<Transport> {
    // A rank's n-th connect with a store meets the n-th of the others.
    const int64_t turn = options.store->add(fmt::format("gloo/turn/{}", options.rank), 1);
    const std::string prefix = fmt::format("gloo/{}", turn);
    auto device = std::make_shared<GlooDevice>(*options.store, prefix, options.rank, options.size,
                                               options.interface, deadline);
    auto context =
        connect_gloo_context(*options.store, prefix, options.rank, options.size, device->device(), deadline);
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
