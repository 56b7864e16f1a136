#include "lockstep/comm/hierarchical_communicator.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/base/secret.h"
#include "lockstep/comm/element_reduce.h"
#include "lockstep/comm/forwarding_communicator.h"
#include "lockstep/comm/host_memory.h"
#include "lockstep/comm/transport.h"

namespace lockstep::comm {
namespace {

/// Pieces on the network, or about to be, while the next one is summed in memory.
constexpr size_t kAhead = 2;

/// A text of every rank. Collective.
std::vector<std::string> gather_texts(Communicator& group, const std::string& own) {
  constexpr size_t kMost = 128;
  std::array<uint8_t, kMost> mine{};
  std::ranges::copy(own.substr(0, kMost - 1), mine.begin());
  std::vector<uint8_t> all(kMost * static_cast<size_t>(group.size()));
  group.all_gather(host_buffer(mine.data(), kMost), host_buffer(all.data(), all.size()))->wait();
  std::vector<std::string> texts;
  for (size_t at = 0; at < all.size(); at += kMost) {
    texts.emplace_back(reinterpret_cast<const char*>(all.data() + at));
  }
  return texts;
}

/// The ranks of each host, ascending, hosts in the order of their first ranks.
std::vector<std::vector<int>> group_equal(const std::vector<std::string>& hosts) {
  std::vector<std::vector<int>> ranks;
  for (int rank = 0; rank < std::ssize(hosts); ++rank) {
    const auto same = [&](const std::vector<int>& known) {
      return hosts[static_cast<size_t>(known.front())] == hosts[static_cast<size_t>(rank)];
    };
    const auto known = std::ranges::find_if(ranks, same);
    if (known == ranks.end()) {
      ranks.push_back({rank});
    } else {
      known->push_back(rank);
    }
  }
  return ranks;
}

/// The memory of this rank's host, of all whose ranks `by_host` has. Collective.
std::unique_ptr<HostMemory> share_memory(Communicator& group, const std::vector<std::vector<int>>& by_host) {
  const auto mine = std::ranges::find_if(by_host, [&](const std::vector<int>& ranks) {
    return std::ranges::find(ranks, group.rank()) != ranks.end();
  });
  const int member = static_cast<int>(std::ranges::find(*mine, group.rank()) - mine->begin());
  std::unique_ptr<HostMemory> memory = member == 0 ? HostMemory::make(*mine) : nullptr;
  const std::vector<std::string> addresses = gather_texts(group, memory ? memory->address() : "");
  const std::string& address = addresses[static_cast<size_t>(mine->front())];
  if (member > 0) memory = HostMemory::open(address, member, *mine);
  const std::vector<std::string> reached = gather_texts(group, memory ? "yes" : "no");
  std::vector<int> apart;
  for (int rank = 0; rank < group.size(); ++rank) {
    if (reached[static_cast<size_t>(rank)] != "yes") apart.push_back(rank);
  }
  if (apart.empty()) return memory;
  throw ConfigError(
      fmt::format("ranks {} cannot share memory with the other ranks of their hosts", fmt::join(apart, ", ")),
      "Containers need one process space for that (--pid); or leave out --hierarchical.");
}

/// All-reduces by the memory of hosts, and those of their first ranks; nothing else.
class HierarchicalTransport final : public Transport {
 public:
  /// `first`: of the first ranks of all hosts, if this is one of them and there are several.
  HierarchicalTransport(Communicator& all, std::unique_ptr<HostMemory> memory, bool is_first,
                        std::unique_ptr<Communicator> first)
      : rank_(all.rank()),
        size_(all.size()),
        backend_(all.backend()),
        memory_(std::move(memory)),
        is_first_(is_first),
        first_(std::move(first)) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string backend() const override { return backend_; }

  void run(const Collective& collective, Deadline deadline) override {
    try {
      is_first_ ? lead(collective, deadline) : follow(collective.output, deadline);
    } catch (...) {
      memory_->fail();
      throw;
    }
  }

  std::shared_ptr<Transport> split(std::span<const int>, Deadline) override {
    throw CommError("only all-reduces are hierarchical");
  }
  std::shared_ptr<Operation> start(const Message&, Deadline) override {
    throw CommError("only all-reduces are hierarchical");
  }
  bool messages_idle() override { return true; }
  void abort(const Failure&) noexcept override { memory_->fail(); }
  double helper_cpu_s() const override { return first_ ? first_->progress_thread_cpu_s() : 0; }

 private:
  /// Part number `i` of a buffer; all but the last are of the same size.
  static Buffer piece_of(const Buffer& buffer, size_t i) {
    const size_t width = element_bytes(buffer.dtype);
    const size_t most = HostMemory::kPieceBytes / width;
    Buffer piece = buffer;
    piece.data = static_cast<char*>(buffer.data) + i * most * width;
    piece.count = std::min(most, buffer.count - i * most);
    return piece;
  }
  static size_t pieces_of(const Buffer& buffer) {
    return (buffer.bytes() + HostMemory::kPieceBytes - 1) / HostMemory::kPieceBytes;
  }

  /// Sums the pieces of this host, then of all hosts, and passes each on as soon as it is there.
  void lead(const Collective& collective, Deadline deadline) {
    const Buffer& buffer = collective.output;
    const ReduceFunction combine = reduce_function(buffer.dtype, collective.op);
    const size_t pieces = pieces_of(buffer);
    std::deque<WorkPtr> works;
    for (size_t i = 0; i < pieces + kAhead; ++i) {
      if (i < pieces) {
        const Buffer piece = piece_of(buffer, i);
        memory_->receive([&](const void* theirs) { combine(piece.data, piece.data, theirs, piece.count); },
                         deadline);
        if (first_) works.push_back(first_->all_reduce(piece, collective.op));
      }
      if (i < kAhead) continue;
      if (first_) {
        works.front()->wait(deadline - Clock::now());
        works.pop_front();
      }
      const Buffer done = piece_of(buffer, i - kAhead);
      memory_->publish(done.data, done.bytes(), deadline);
    }
  }

  /// Passes the pieces to the host's first rank, and gets their sums.
  void follow(const Buffer& buffer, Deadline deadline) {
    const size_t pieces = pieces_of(buffer);
    for (size_t i = 0; i < pieces + kAhead; ++i) {
      if (i < pieces) {
        const Buffer piece = piece_of(buffer, i);
        memory_->put(piece.data, piece.bytes(), deadline);
      }
      if (i < kAhead) continue;
      const Buffer done = piece_of(buffer, i - kAhead);
      memory_->take(done.data, done.bytes(), deadline);
    }
  }

  const int rank_;
  const int size_;
  const std::string backend_;
  const std::unique_ptr<HostMemory> memory_;
  const bool is_first_;
  const std::unique_ptr<Communicator> first_;
};

class HierarchicalCommunicator final : public ForwardingCommunicator {
 public:
  /// `sums`: of the all-reduces; null: those of `real`.
  HierarchicalCommunicator(Communicator& real, std::string host, std::shared_ptr<Communicator> sums)
      : ForwardingCommunicator(real), host_(std::move(host)), sums_(std::move(sums)) {}

  WorkPtr issue(const Collective& collective) override { return way_of(collective).issue(collective); }
  void run(const Collective& collective) override { way_of(collective).run(collective); }
  bool idle() const override { return real_.idle() && (!sums_ || sums_->idle()); }

  std::unique_ptr<Communicator> duplicate() override;

  double progress_thread_cpu_s() const override {
    double cpu_s = real_.progress_thread_cpu_s() + (sums_ ? sums_->progress_thread_cpu_s() : 0);
    const std::lock_guard lock(mutex_);
    for (const auto& lane : lanes_) {
      if (const auto alive = lane.lock()) cpu_s += alive->progress_thread_cpu_s();
    }
    return cpu_s;
  }

 private:
  Communicator& way_of(const Collective& collective) const {
    const bool here =
        collective.kind == Collective::Kind::kAllReduce && collective.input.device == DeviceKind::kCpu;
    return here && sums_ ? *sums_ : real_;
  }

  /// The real communicator of a duplicate, which nobody else owns.
  std::unique_ptr<Communicator> owned_;
  const std::string host_;
  const std::shared_ptr<Communicator> sums_;
  mutable std::mutex mutex_;
  /// The all-reduces of duplicates.
  std::vector<std::weak_ptr<Communicator>> lanes_;
};

/// The communicator of the all-reduces; null if no two ranks share a host. Collective.
std::shared_ptr<Communicator> make_sums(Communicator& real, const std::string& host) {
  const auto by_host = ranks_by_host(real, host);
  if (std::ssize(by_host) == real.size()) return nullptr;
  std::unique_ptr<HostMemory> memory = share_memory(real, by_host);
  std::vector<int> first_ranks;
  for (const std::vector<int>& ranks : by_host) first_ranks.push_back(ranks.front());
  const bool is_first = std::ranges::find(first_ranks, real.rank()) != first_ranks.end();
  std::unique_ptr<Communicator> first;
  if (first_ranks.size() > 1) first = real.split(first_ranks);
  return make_communicator(
      std::make_shared<HierarchicalTransport>(real, std::move(memory), is_first, std::move(first)),
      real.timeout());
}

std::unique_ptr<Communicator> HierarchicalCommunicator::duplicate() {
  std::unique_ptr<Communicator> real = real_.duplicate();
  auto other = std::make_unique<HierarchicalCommunicator>(*real, host_, make_sums(*real, host_));
  other->owned_ = std::move(real);
  const std::lock_guard lock(mutex_);
  lanes_.push_back(other->sums_);
  return other;
}

}  // namespace

std::vector<std::vector<int>> ranks_by_host(Communicator& group, const std::string& host) {
  // A digest, since names may be longer than a text that is gathered.
  return group_equal(gather_texts(group, to_hexadecimal(key_from(host))));
}

std::unique_ptr<Communicator> make_hierarchical(Communicator& real, std::string host) {
  auto sums = make_sums(real, host);
  return std::make_unique<HierarchicalCommunicator>(real, std::move(host), std::move(sums));
}

}  // namespace lockstep::comm
