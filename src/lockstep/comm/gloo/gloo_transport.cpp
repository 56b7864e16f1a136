#include "lockstep/comm/gloo/gloo_transport.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include <fmt/format.h>
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/reduce.h>

#include "lockstep/comm/element_reduce.h"
#include "lockstep/comm/gloo/gloo_context.h"
#include "lockstep/comm/gloo/gloo_device.h"
#include "lockstep/comm/gloo/gloo_errors.h"
#include "lockstep/comm/gloo/gloo_message.h"
#include "lockstep/comm/gloo/gloo_reduce_scatter.h"

namespace lockstep::comm {
namespace {

uint8_t* bytes_of(const Buffer& buffer) {
  return static_cast<uint8_t*>(buffer.data);
}

/// Calls `call` with a pointer of an unsigned type as wide as the elements: Gloo takes the width from it.
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

  void all_reduce(const Buffer& buffer, ReduceOp op, Deadline by) override {
    if (buffer.count == 0) return;
    gloo::AllreduceOptions options(context_);
    with_width(buffer, [&](auto* data) { options.setOutput(data, buffer.count); });
    options.setReduceFunction(reduce_function(buffer.dtype, op));
    run(options, by, [](auto& ready) { gloo::allreduce(ready); });
  }

  void reduce(const Buffer& buffer, ReduceOp op, int root, Deadline by) override {
    if (buffer.count == 0) return;
    gloo::ReduceOptions options(context_);
    with_width(buffer, [&](auto* data) { options.setOutput(data, buffer.count); });
    options.setRoot(root);
    options.setReduceFunction(reduce_function(buffer.dtype, op));
    run(options, by, [](auto& ready) { gloo::reduce(ready); });
  }

  void broadcast(const Buffer& buffer, int root, Deadline by) override {
    if (buffer.count == 0) return;
    gloo::BroadcastOptions options(context_);
    options.setOutput(bytes_of(buffer), buffer.bytes());
    options.setRoot(root);
    run(options, by, [](auto& ready) { gloo::broadcast(ready); });
  }

  void all_gather(const Buffer& input, const Buffer& output, Deadline by) override {
    if (input.count == 0) return;
    gloo::AllgatherOptions options(context_);
    const bool in_place = bytes_of(input) == bytes_of(output) + size_t(rank()) * input.bytes();
    if (!in_place) options.setInput(bytes_of(input), input.bytes());
    options.setOutput(bytes_of(output), output.bytes());
    run(options, by, [](auto& ready) { gloo::allgather(ready); });
  }

  void reduce_scatter(const Buffer& input, const Buffer& output, ReduceOp op, Deadline by) override {
    if (output.count == 0) return;
    translated([&] { gloo_ring_reduce_scatter(*context_, input, output, op, next_tag_++, by); });
  }

  void all_to_all(const Buffer& input, const Buffer& output, Deadline by) override {
    if (input.count == 0) return;
    gloo::AlltoallOptions options(context_);
    options.setInput(bytes_of(input), input.bytes());
    options.setOutput(bytes_of(output), output.bytes());
    run(options, by, [](auto& ready) { gloo::alltoall(ready); });
  }

  void barrier(Deadline by) override {
    gloo::BarrierOptions options(context_);
    run(options, by, [](auto& ready) { gloo::barrier(ready); });
  }

  std::shared_ptr<Transport> split(std::span<const int> ranks, Deadline by) override {
    const std::string prefix = fmt::format("{}/part{}", prefix_, splits_++);
    const auto mine = std::find(ranks.begin(), ranks.end(), rank());
    if (mine == ranks.end() || ranks.size() == 1) return nullptr;
    return translated([&] {
      auto context = connect_gloo_context(store_, prefix, int(mine - ranks.begin()), int(ranks.size()),
                                          device_->device(), by);
      return std::make_shared<GlooTransport>(store_, prefix, device_, std::move(context));
    });
  }

  std::shared_ptr<Operation> send(const Buffer& buffer, int peer, int tag, Deadline by) override {
    return start({"send", buffer.bytes(), peer, tag}, GlooMessage::Direction::kSend, buffer, {peer}, by);
  }

  std::shared_ptr<Operation> receive(const Buffer& buffer, int peer, int tag, Deadline by) override {
    return start({"receive", buffer.bytes(), peer, tag}, GlooMessage::Direction::kReceive, buffer, {peer},
                 by);
  }

  std::shared_ptr<Operation> receive_any(const Buffer& buffer, int tag, Deadline by) override {
    std::vector<int> others;
    for (int peer = 0; peer < size(); ++peer) {
      if (peer != rank()) others.push_back(peer);
    }
    return start({"receive_any", buffer.bytes(), -1, tag}, GlooMessage::Direction::kReceive, buffer, others,
                 by);
  }

  bool messages_idle() override {
    std::lock_guard lock(mutex_);
    forget_finished();
    return messages_.empty();
  }

  void abort(const Failure& why) noexcept override {
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
  void run(Options& options, Deadline by, Call call) {
    options.setTag(next_tag_++);
    options.setTimeout(milliseconds_left(by));
    translated([&] { call(options); });
  }

  std::shared_ptr<Operation> start(OperationInfo info, GlooMessage::Direction direction, const Buffer& buffer,
                                   const std::vector<int>& peers, Deadline by) {
    auto message = std::make_shared<GlooMessage>(info, direction, *context_, buffer, by, waiters_);
    message->start(peers, info.tag);
    std::lock_guard lock(mutex_);
    forget_finished();
    messages_.push_back(message);
    return message;
  }

  void forget_finished() {
    std::erase_if(messages_, [](const auto& message) { return message->has_outcome(); });
  }

  Store& store_;
  const std::string prefix_;
  const std::shared_ptr<GlooDevice> device_;
  const std::shared_ptr<gloo::Context> context_;
  const std::shared_ptr<WaiterThreads> waiters_ = std::make_shared<WaiterThreads>();
  // Used on the progress thread only; the same on every rank, as all issue the same collectives.
  uint32_t next_tag_ = 0;
  int splits_ = 0;
  std::mutex mutex_;
  std::vector<std::shared_ptr<GlooMessage>> messages_;
};

}  // namespace

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

}  // namespace lockstep::comm
