#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include <fmt/format.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/element_reduce.h"
#include "lockstep/comm/thread/hub.h"
#include "lockstep/comm/transport.h"

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

  /// Each rank shows its buffers to all others in a first meeting, reads theirs, and waits in a second one
  /// until nobody reads its own any more.
  void run(const Collective& collective, Deadline by) override {
    hub_->meet_with(rank_, {collective.name(), collective}, by);
    exchange(collective);
    hub_->meet(rank_, by);
  }

  bool keeps_deadline(const Collective&) const override { return true; }

  std::shared_ptr<Transport> split(std::span<const int> ranks, Deadline by) override {
    hub_->meet_with(rank_, {"split", {.input = {.count = ranks.size()}}}, by);
    const auto mine = std::find(ranks.begin(), ranks.end(), rank_);
    if (rank_ == ranks.front()) hub_->handed_over = std::make_shared<Hub>(int(ranks.size()));
    hub_->meet(rank_, by);
    // Between two meetings, so that handed_over is neither read early nor overwritten by the next split.
    std::shared_ptr<Transport> part;
    if (mine != ranks.end() && ranks.size() > 1) {
      part = std::make_shared<ThreadTransport>(hub_->handed_over, int(mine - ranks.begin()));
    }
    hub_->meet(rank_, by);
    return part;
  }

  std::shared_ptr<Operation> start(const Message& message, Deadline) override {
    return hub_->mailbox().post(rank_, message);
  }

  bool messages_idle() override { return hub_->mailbox().idle(rank_); }
  void abort(const Failure& why) noexcept override { hub_->fail(why); }
  void close() noexcept override { hub_->leave(rank_); }

 private:
  void exchange(const Collective& mine) {
    const Buffer& input = mine.input;
    const Buffer& output = mine.output;
    switch (mine.kind) {
      case Collective::Kind::kAllReduce:
        return reduce_share(input.count, 0, size());
      case Collective::Kind::kReduce:
        return reduce_share(input.count, mine.root, mine.root + 1);
      case Collective::Kind::kBroadcast:
        return copy_bytes(output.data, peer_input(mine.root), output.bytes());
      case Collective::Kind::kAllGather:
        return copy_parts(output, input.bytes(), 0);
      case Collective::Kind::kReduceScatter: {
        const size_t begin = size_t(rank_) * output.count;
        return reduce_range(begin, begin + output.count, rank_, rank_ + 1, 0);
      }
      case Collective::Kind::kAllToAll: {
        const size_t part_bytes = input.bytes() / size_t(size());
        return copy_parts(output, part_bytes, size_t(rank_) * part_bytes);
      }
      case Collective::Kind::kBarrier:
        return;
    }
  }

  const void* peer_input(int rank) const { return hub_->collective(rank).input.data; }

  /// Copies to the r-th part of `output` what rank r's input holds from byte `from` on.
  void copy_parts(const Buffer& output, size_t part_bytes, size_t from) const {
    for (int peer = 0; peer < size(); ++peer) {
      copy_bytes(at(output.data, size_t(peer) * part_bytes), at(peer_input(peer), from), part_bytes);
    }
  }

  /// Combines this rank's share of the elements, about 1 / size() of them, for ranks [first_to, last_to).
  void reduce_share(size_t count, int first_to, int last_to) {
    constexpr size_t kAligned = 64;  // elements: whole cache lines whatever the dtype
    const size_t lines = (count + kAligned - 1) / kAligned;
    const auto bound = [&](int rank) {
      return std::min(count, lines * size_t(rank) / size_t(size()) * kAligned);
    };
    const size_t begin = bound(rank_);
    reduce_range(begin, bound(rank_ + 1), first_to, last_to, begin);
  }

  /// Combines elements [begin, end) of all inputs, in the order of ranks, into the outputs of ranks
  /// [first_to, last_to), there from element `to` on. Goes block by block, so that partial results stay in
  /// cache and each input is read before an output at the same place is written.
  void reduce_range(size_t begin, size_t end, int first_to, int last_to, size_t to) {
    const Collective& mine = hub_->collective(rank_);
    const ReduceFunction combine = reduce_function(mine.input.dtype, mine.op);
    const size_t width = element_bytes(mine.input.dtype);
    const size_t block = block_.size() / width;
    for (size_t i = begin; i < end; i += block) {
      const size_t count = std::min(block, end - i);
      const auto input = [&](int rank) { return at(peer_input(rank), i * width); };
      combine(block_.data(), input(0), input(1), count);
      for (int rank = 2; rank < size(); ++rank) combine(block_.data(), block_.data(), input(rank), count);
      for (int rank = first_to; rank < last_to; ++rank) {
        std::memcpy(at(hub_->collective(rank).output.data, (to + i - begin) * width), block_.data(),
                    count * width);
      }
    }
  }

  const std::shared_ptr<Hub> hub_;
  const int rank_;
  alignas(64) std::array<char, 32 * 1024> block_;
};

/// Hubs by the id under which the rank that made one announces it to those that join.
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
  // A store shared by processes: a hub cannot be reached from another one.
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
    // The ranks that wait for this one fail with its reason at once.
    hub->fail(Failure::from_current_exception());
    throw;
  }
  return std::make_shared<ThreadTransport>(std::move(hub), options.rank);
}

}  // namespace lockstep::comm
