#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "lockstep/comm/operation.h"
#include "lockstep/comm/types.h"

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

}  // namespace lockstep::comm
