#include "lockstep/comm/thread/thread_transport.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include <fmt/format.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/element_reduce.h"
#include "lockstep/comm/thread/hub.h"

namespace lockstep::comm {
namespace {

const char* at(const void* data, size_t byte) {
  return static_cast<const char*>(data) + byte;
}
char* at(void* data, size_t byte) {
  return static_cast<char*>(data) + byte;
}

void copy_bytes(void* to, const void* from, size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

class ThreadTransport final : public Transport {
 public:
  ThreadTransport(std::shared_ptr<Hub> hub, int rank) : hub_(std::move(hub)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return hub_->size(); }
  std::string backend() const override { return "thread"; }
  Capabilities capabilities() const override { return thread_capabilities(); }

  void all_reduce(const Buffer& buffer, ReduceOp op, Deadline by) override {
    hub_->meet_with(rank_, {"all_reduce", buffer.count, buffer.dtype, op, 0, buffer.data, buffer.data}, by);
    const auto [begin, end] = own_range(buffer.count);
    reduce_range(begin, end, 0, size(), begin);
    hub_->meet(rank_, by);
  }

  void reduce(const Buffer& buffer, ReduceOp op, int root, Deadline by) override {
    hub_->meet_with(rank_, {"reduce", buffer.count, buffer.dtype, op, root, buffer.data, buffer.data}, by);
    const auto [begin, end] = own_range(buffer.count);
    reduce_range(begin, end, root, root + 1, begin);
    hub_->meet(rank_, by);
  }

  void broadcast(const Buffer& buffer, int root, Deadline by) override {
    hub_->meet_with(rank_, {"broadcast", buffer.count, buffer.dtype, {}, root, buffer.data, buffer.data}, by);
    copy_bytes(buffer.data, hub_->contribution(root).input, buffer.bytes());
    hub_->meet(rank_, by);
  }

  void all_gather(const Buffer& input, const Buffer& output, Deadline by) override {
    hub_->meet_with(rank_, {"all_gather", input.count, input.dtype, {}, 0, input.data, output.data}, by);
    const size_t bytes = input.bytes();
    for (int peer = 0; peer < size(); ++peer) {
      copy_bytes(at(output.data, size_t(peer) * bytes), hub_->contribution(peer).input, bytes);
    }
    hub_->meet(rank_, by);
  }

  void reduce_scatter(const Buffer& input, const Buffer& output, ReduceOp op, Deadline by) override {
    hub_->meet_with(rank_, {"reduce_scatter", output.count, output.dtype, op, 0, input.data, output.data},
                    by);
    const size_t begin = size_t(rank_) * output.count;
    reduce_range(begin, begin + output.count, rank_, rank_ + 1, 0);
    hub_->meet(rank_, by);
  }

  void all_to_all(const Buffer& input, const Buffer& output, Deadline by) override {
    hub_->meet_with(rank_, {"all_to_all", input.count, input.dtype, {}, 0, input.data, output.data}, by);
    const size_t bytes = input.bytes() / size_t(size());
    for (int peer = 0; peer < size(); ++peer) {
      copy_bytes(at(output.data, size_t(peer) * bytes),
                 at(hub_->contribution(peer).input, size_t(rank_) * bytes), bytes);
    }
    hub_->meet(rank_, by);
  }

  void barrier(Deadline by) override {
    hub_->meet_with(rank_, {"barrier"}, by);
    hub_->meet(rank_, by);
  }

  std::shared_ptr<Transport> split(std::span<const int> ranks, Deadline by) override {
    hub_->meet_with(rank_, {"split", ranks.size()}, by);
    const auto mine = std::find(ranks.begin(), ranks.end(), rank_);
    if (rank_ == ranks.front()) hub_->handed_over = std::make_shared<Hub>(int(ranks.size()));
    hub_->meet(rank_, by);
    std::shared_ptr<Transport> part;
    if (mine != ranks.end() && ranks.size() > 1) {
      part = std::make_shared<ThreadTransport>(hub_->handed_over, int(mine - ranks.begin()));
    }
    hub_->meet(rank_, by);
    return part;
  }

  std::shared_ptr<Operation> send(const Buffer& buffer, int peer, int tag, Deadline) override {
    return hub_->mailbox().send(rank_, peer, tag, buffer);
  }
  std::shared_ptr<Operation> receive(const Buffer& buffer, int peer, int tag, Deadline) override {
    return hub_->mailbox().receive(rank_, peer, tag, buffer);
  }
  std::shared_ptr<Operation> receive_any(const Buffer& buffer, int tag, Deadline) override {
    return hub_->mailbox().receive(rank_, std::nullopt, tag, buffer);
  }

  bool messages_idle() override { return hub_->mailbox().idle(rank_); }
  void abort(const Failure& why) noexcept override { hub_->fail(why); }
  void close() noexcept override { hub_->leave(rank_); }

 private:
  /// The elements that this rank combines for all.
  std::pair<size_t, size_t> own_range(size_t count) const {
    constexpr size_t kCacheLine = 64;  // elements: whole lines whatever the dtype
    const size_t lines = (count + kCacheLine - 1) / kCacheLine;
    const auto bound = [&](int rank) {
      return std::min(count, lines * size_t(rank) / size_t(size()) * kCacheLine);
    };
    return {bound(rank_), bound(rank_ + 1)};
  }

  /// Combines elements [begin, end) of all inputs, in the order of ranks, into the outputs of ranks
  /// [first_to, last_to), there from element `to` on. Goes block by block, so that partial results stay in
  /// cache and each input is read before an output at the same place is written.
  void reduce_range(size_t begin, size_t end, int first_to, int last_to, size_t to) {
    const Contribution& mine = hub_->contribution(rank_);
    const ReduceFunction combine = reduce_function(mine.dtype, mine.op);
    const size_t width = element_bytes(mine.dtype);
    const size_t block = block_.size() / width;
    for (size_t i = begin; i < end; i += block) {
      const size_t count = std::min(block, end - i);
      const auto input = [&](int rank) { return at(hub_->contribution(rank).input, i * width); };
      combine(block_.data(), input(0), input(1), count);
      for (int rank = 2; rank < size(); ++rank) combine(block_.data(), block_.data(), input(rank), count);
      for (int rank = first_to; rank < last_to; ++rank) {
        std::memcpy(at(hub_->contribution(rank).output, (to + i - begin) * width), block_.data(),
                    count * width);
      }
    }
  }

  const std::shared_ptr<Hub> hub_;
  const int rank_;
  alignas(64) std::array<char, 32 * 1024> block_;
};

/// Hubs on their way from the rank that makes them to those that join.
struct Lobby {
  std::mutex mutex;
  int64_t last_id = 0;
  std::map<int64_t, std::weak_ptr<Hub>> hubs;
};

Lobby& lobby() {
  static Lobby the_lobby;
  return the_lobby;
}

std::shared_ptr<Hub> join_hub(const std::string& key, const ConnectOptions& options) {
  const int64_t pid = ::getpid();
  if (options.store->add(key + "/claim", 1) == 1) {
    auto hub = std::make_shared<Hub>(options.size);
    std::lock_guard lock(lobby().mutex);
    std::erase_if(lobby().hubs, [](const auto& entry) { return entry.second.expired(); });
    const int64_t id = ++lobby().last_id;
    lobby().hubs[id] = hub;
    options.store->set(key + "/hub", fmt::format("{} {}", pid, id));
    return hub;
  }
  const std::string value = options.store->get(key + "/hub", options.timeout);
  const size_t space = value.find(' ');
  if (std::stoll(value) != pid) {
    throw ConfigError(
        "the thread backend joins threads of one process, but these ranks are several processes",
        "use the gloo or mpi backend");
  }
  std::lock_guard lock(lobby().mutex);
  auto hub = lobby().hubs[std::stoll(value.substr(space))].lock();
  if (!hub) throw CommError("the rank that joined first has given up");
  return hub;
}

}  // namespace

Capabilities thread_capabilities() {
  return {.ranks_as_threads = true};
}

std::shared_ptr<Transport> connect_thread_transport(const ConnectOptions& options) {
  const Deadline deadline = deadline_after(options.timeout);
  // A rank's n-th connect with a store meets the n-th of the others.
  const int64_t turn = options.store->add(fmt::format("thread/turn/{}", options.rank), 1);
  auto hub = join_hub(fmt::format("thread/{}", turn), options);
  if (hub->size() != options.size) {
    throw ConfigError(
        fmt::format("rank {} joins {} ranks, another one {}", options.rank, options.size, hub->size()));
  }
  try {
    hub->meet(options.rank, deadline);
  } catch (...) {
    hub->fail(Failure::from_current_exception());
    throw;
  }
  return std::make_shared<ThreadTransport>(std::move(hub), options.rank);
}

}  // namespace lockstep::comm
