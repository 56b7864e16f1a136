#pragma once

#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include <signal.h>

#include "lockstep/base/tcp_socket.h"

namespace lockstep::launch {

/// Those by which a user or a launcher ends a process.
inline constexpr std::initializer_list<int> kEndingSignals{SIGINT, SIGTERM, SIGHUP};

/// Blocks all signals in the calling thread while it lives; threads started meanwhile keep them blocked.
class BlockedSignals {
 public:
  BlockedSignals();
  ~BlockedSignals();
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

/// Blocks these signals in the calling thread and in all threads that it starts later.
void block_signals(std::initializer_list<int> signals);

/// Unblocks these signals in the calling thread.
void unblock_signals(std::initializer_list<int> signals);

/// Wakes a thread out of poll(). Thread-safe.
class WakeUp {
 public:
  WakeUp();

  /// Readable after wake(), until take().
  int fd() const { return event_.get(); }
  void wake() const;
  /// Whether wake() was called since the last take().
  bool take() const;

 private:
  UniqueFd event_;
};

/// Turns signals into readable bytes, so that a thread can poll for them together with sockets, whichever
/// thread a signal reaches. SIGINT and SIGHUP stay ignored where they were ignored when the process started
/// (nohup, background jobs). At most one in a process at a time; its destructor restores the earlier
/// dispositions.
class SignalPipe {
 public:
  explicit SignalPipe(std::initializer_list<int> signals);
  ~SignalPipe();
  SignalPipe(const SignalPipe&) = delete;
  SignalPipe& operator=(const SignalPipe&) = delete;

  /// Readable if take() has a signal.
  int fd() const { return read_end_.get(); }
  std::optional<int> take();

 private:
  UniqueFd read_end_;
  UniqueFd write_end_;
  std::vector<std::pair<int, struct sigaction>> before_;
};

}  // namespace lockstep::launch
