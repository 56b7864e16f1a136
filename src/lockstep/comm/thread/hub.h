#pragma once

#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "lockstep/comm/operation.h"

namespace lockstep::comm {

/// Messages between the ranks of one process. Whichever side comes second copies the message, once, and
/// completes both. Thread-safe.
class Mailbox {
 public:
  explicit Mailbox(int size);

  /// Starts `rank`'s end of a message.
  std::shared_ptr<Operation> post(int rank, const Message& message);

  /// Whether `rank` has no unmatched send or receive.
  bool idle(int rank);

  /// Fails all present and future messages.
  void fail(const Failure& why);
  /// Fails all messages to `rank`, and all that are awaited from `rank` only.
  void leave(int rank);

 private:
  struct Letter {
    /// Empty: from any rank.
    std::optional<int> from;
    int to = 0;
    int tag = 0;
    Buffer buffer;
    std::shared_ptr<Operation> operation;
  };

  /// Copies a message and completes both ends. Called without the lock: the letters are in no list any more.
  static void deliver(const Letter& sent, const Letter& awaited);
  /// The reason why a letter can never be matched, if there is one.
  std::optional<Failure> refusal(const Letter& letter) const;

  std::mutex mutex_;
  std::list<Letter> sent_;
  std::list<Letter> awaited_;
  std::vector<bool> left_;
  std::optional<Failure> failure_;
};

/// One rank's side of a collective, or of a split (see `call`). All but the addresses must agree on all
/// ranks.
struct Contribution {
  const char* call = "";
  Collective collective{};
};

/// Meeting point of the ranks of one communicator, each on its own thread. Thread-safe.
class Hub {
 public:
  explicit Hub(int size);

  int size() const { return size_; }
  Mailbox& mailbox() { return mailbox_; }

  /// Blocks until every rank has called meet as often as this one. Throws TimeoutError that names the
  /// missing ranks, PeerLostError when a missing rank has left, or the failure of another rank.
  void meet(int rank, Deadline deadline);

  /// meet(), after which collective(r) is rank r's until the next meet(), which every rank must call before
  /// the next meet_with(). Throws CommError when the ranks contribute different operations.
  void meet_with(int rank, const Contribution& mine, Deadline deadline);
  const Collective& collective(int rank) const { return contributions_[size_t(rank)].collective; }

  /// Passes a new hub from one rank to all others between two meetings.
  std::shared_ptr<Hub> handed_over;

  /// Fails all present and future meetings and messages.
  void fail(const Failure& why);
  /// Announces that this rank will not come again; ranks that wait for it fail.
  void leave(int rank);

 private:
  std::vector<int> missing() const;
  void raise_if_failed() const;

  const int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> arrived_;
  std::vector<bool> left_;
  int arrived_count_ = 0;
  uint64_t meetings_ = 0;
  std::optional<Failure> failure_;
  std::vector<Contribution> contributions_;
  Mailbox mailbox_;
};

}  // namespace lockstep::comm
