#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "lockstep/comm/operation.h"
#include "lockstep/comm/types.h"

namespace lockstep::comm {

/// Messages between the ranks of one process. A message is copied once, by whichever side comes second, and a
/// send is complete only then. Thread-safe.
class Mailbox {
 public:
  explicit Mailbox(int size);

  std::shared_ptr<Operation> send(int from, int to, int tag, const Buffer& buffer);
  /// `from` empty: from any rank.
  std::shared_ptr<Operation> receive(int to, std::optional<int> from, int tag, const Buffer& buffer);

  /// Whether `rank` has neither sent nor awaits a message that is not there yet.
  bool idle(int rank);

  void fail(const Failure& why);
  /// What others await from `rank` only, or send to it, fails.
  void leave(int rank);

 private:
  struct Letter {
    std::optional<int> from;
    int to = 0;
    int tag = 0;
    Buffer buffer;
    std::shared_ptr<Operation> operation;
  };

  static void deliver(const Letter& sent, const Letter& awaited);
  std::optional<Failure> refusal(const Letter& letter) const;

  std::mutex mutex_;
  std::list<Letter> sent_;
  std::list<Letter> awaited_;
  std::vector<bool> left_;
  std::optional<Failure> failure_;
};

}  // namespace lockstep::comm
