#pragma once

#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include <signal.h>

#include "lockstep/launch/tcp_socket.h"

namespace lockstep::launch {

/// Blocks all signals in the calling thread for its lifetime; threads started meanwhile keep them blocked.
class BlockedSignals {
 public:
  BlockedSignals();
  ~BlockedSignals();
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

/// Blocks these in the calling thread and in all that it starts later.
void block_signals(std::initializer_list<int> signals);

/// Lets these through in the calling thread.
void unblock_signals(std::initializer_list<int> signals);

/// Turns signals into readable bytes, so that a thread can wait for them together with other things.
/// Whichever thread a signal reaches, it ends up here. SIGINT and SIGHUP stay ignored where they were ignored
/// when the process started (nohup, background jobs). One at a time in a process; the dispositions from
/// before come back with its end.
class SignalPipe {
 public:
  explicit SignalPipe(std::initializer_list<int> signals);
  ~SignalPipe();
  SignalPipe(const SignalPipe&) = delete;
  SignalPipe& operator=(const SignalPipe&) = delete;

  /// Readable when take() has one.
  int fd() const { return read_end_.get(); }
  std::optional<int> take();

 private:
  UniqueFd read_end_;
  UniqueFd write_end_;
  std::vector<std::pair<int, struct sigaction>> before_;
};

}  // namespace lockstep::launch
