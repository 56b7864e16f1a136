#include "lockstep/launch/signals.h"

#include <atomic>
#include <cerrno>
#include <cstdint>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lockstep/base/error.h"

namespace lockstep::launch {
namespace {

/// The write end of the only SignalPipe; -1: none.
/// Atomic: the handler may run in any thread, also while the pipe is being taken down.
std::atomic<int> handler_fd{-1};

void write_signal(int signal) {
  const int saved = errno;
  const auto byte = static_cast<unsigned char>(signal);
  const int fd = handler_fd.load(std::memory_order_relaxed);
  // A full pipe holds enough signals already.
  if (fd >= 0 && ::write(fd, &byte, 1) < 0) errno = saved;
  errno = saved;
}

sigset_t set_of(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

}  // namespace

BlockedSignals::BlockedSignals() {
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before_);
}

BlockedSignals::~BlockedSignals() {
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void block_signals(std::initializer_list<int> signals) {
  const sigset_t set = set_of(signals);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void unblock_signals(std::initializer_list<int> signals) {
  const sigset_t set = set_of(signals);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

WakeUp::WakeUp() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!event_) throw Error("cannot make an eventfd: too many open files");
}

void WakeUp::wake() const {
  const uint64_t one = 1;
  // Fails only if the counter is full, and so the thread is awake.
  [[maybe_unused]] const ssize_t written = ::write(event_.get(), &one, sizeof one);
}

bool WakeUp::take() const {
  uint64_t count = 0;
  return ::read(event_.get(), &count, sizeof count) > 0;
}

SignalPipe::SignalPipe(std::initializer_list<int> signals) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) throw Error("cannot make a pipe: too many open files");
  read_end_ = UniqueFd(ends[0]);
  write_end_ = UniqueFd(ends[1]);
  handler_fd = write_end_.get();
  for (const int signal : signals) {
    struct sigaction before {};
    ::sigaction(signal, nullptr, &before);
    // nohup and shells that start background jobs ignore these on purpose.
    if ((signal == SIGINT || signal == SIGHUP) && before.sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_handler = write_signal;
    // Library calls in other threads do not expect EINTR.
    action.sa_flags = SA_RESTART;
    ::sigaction(signal, &action, nullptr);
    before_.emplace_back(signal, before);
  }
}

SignalPipe::~SignalPipe() {
  for (const auto& [signal, before] : before_) ::sigaction(signal, &before, nullptr);
  handler_fd = -1;
}

std::optional<int> SignalPipe::take() {
  unsigned char byte = 0;
  if (::read(read_end_.get(), &byte, 1) != 1) return std::nullopt;
  return byte;
}

}  // namespace lockstep::launch
