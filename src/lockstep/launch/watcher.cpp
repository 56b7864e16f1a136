#include "lockstep/launch/watcher.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/host_name.h"
#include "lockstep/base/plain_text.h"
#include "lockstep/comm/operation.h"
#include "lockstep/launch/reception.h"

namespace lockstep::launch {
namespace {

/// Time to wait for the coordinator's answer.
constexpr std::chrono::seconds kAnswer{1};

}  // namespace

Watcher::Watcher(Options options) : options_(std::move(options)) {
  Welcome welcome = enter(options_.host, options_.port,
                          {.service = kWatchService,
                           .job_id = options_.job_id,
                           .token = options_.token,
                           .rank = options_.rank,
                           .more = {{"host", host_name()}, {"pid", ::getpid()}}},
                          options_.timeout);
  channel_ = std::move(welcome.channel);
  coordinator_host_ = printable(welcome.message.value("host", ""));
  coordinator_pid_ = welcome.message.value("pid", int64_t{0});
  // Signals belong to the session's own thread.
  const BlockedSignals blocked;
  thread_ = std::thread([this] { run(); });
}

Watcher::~Watcher() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.wake();
  thread_.join();
}

std::optional<LostRank> Watcher::report(const LostRank& own, std::chrono::duration<double> patience) {
  std::unique_lock lock(mutex_);
  to_send_ = json{{"is", "failed"}, {"lost", to_message(own)}};
  wake_.wake();
  lock.unlock();
  return wait_lost(patience);
}

void Watcher::goodbye() {
  std::unique_lock lock(mutex_);
  to_send_ = json{{"is", "bye"}};
  wake_.wake();
  changed_.wait_for(lock, kAnswer, [this] { return over_; });
}

void Watcher::tell_to_leave(int signal) {
  std::unique_lock lock(mutex_);
  to_send_ = json{{"is", "leave"}, {"signal", signal}};
  wake_.wake();
  // Waits for the answer: the coordinator may be in this process, which is about to end.
  changed_.wait_for(lock, kAnswer, [this] { return leaving_ || over_; });
}

void Watcher::wait_coordinator_ended(std::chrono::duration<double> patience) const {
  const auto deadline = comm::deadline_after(patience);
  pollfd wanted{channel_.fd(), POLLRDHUP, 0};
  while (::poll(&wanted, 1, milliseconds_until(deadline)) < 0) continue;  // a signal
}

std::optional<LostRank> Watcher::wait_lost(std::chrono::duration<double> patience) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, patience, [this] { return lost_ || over_; });
  return lost_;
}

void Watcher::run() {
  auto last_turn = Clock::now();
  auto last_heard = last_turn;
  auto next_beat = last_turn;
  while (true) {
    if (Clock::now() >= next_beat) {
      send_beat();
      next_beat = Clock::now() + kHeartbeatPeriod;
    }
    pollfd wanted[] = {{channel_.fd(), static_cast<short>(POLLIN | (channel_.has_unsent() ? POLLOUT : 0)), 0},
                       {wake_.fd(), POLLIN, 0}};
    ::poll(wanted, 2, milliseconds_until(next_beat));
    const auto now = Clock::now();
    // After a pause of its own, this process cannot tell whether the coordinator was silent.
    if (now - last_turn > kPaused) last_heard = now;
    last_turn = now;

    // Woken by another thread of this rank, with something to send or to end.
    if (wanted[1].revents != 0) {
      const bool woken = wake_.take();
      const std::lock_guard lock(mutex_);
      // Only this thread touches the channel; the others leave their message in to_send_.
      if (woken && to_send_) channel_.send(*std::exchange(to_send_, std::nullopt));
      changed_.notify_all();
      if (stop_) return;
    }
    channel_.flush();
    if (wanted[0].revents != 0) last_heard = now;
    // The verdict may be the last message before the connection ends, so messages come first.
    const bool open = channel_.receive();
    bool sane = true;
    try {
      while (const auto message = channel_.next()) {
        if (!handle(*message)) return;
      }
    } catch (const json::exception&) {
      sane = false;
    }
    if (!open || !sane) {
      LostRank lost = about_coordinator();
      mark_ended(lost);
      return lose(lost);
    }
    if (now - last_heard > options_.timeout) {
      LostRank lost = about_coordinator();
      mark_silent(lost, std::chrono::duration<double>(now - last_heard).count());
      // If it wakes up, it must not take the end of this rank for the cause.
      channel_.send({{"is", "abandoned"}, {"lost", to_message(lost)}});
      return lose(lost);
    }
  }
}

bool Watcher::handle(const json& message) {
  const std::string is = message.at("is");
  if (is == "beat") {
    coordinator_progress_ = {message.at("step"), printable(message.at("label").get<std::string>())};
  } else if (is == "lost") {
    lose(lost_rank_from(message.at("lost")));
    return false;
  } else if (is == "leave") {
    {
      const std::lock_guard lock(mutex_);
      leaving_ = true;
      changed_.notify_all();
    }
    if (options_.on_leave) options_.on_leave(ending_signal_from(message));
  } else if (is == "bye" || is == "end") {
    const std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_all();
    return false;
  }
  return true;
}

void Watcher::lose(const LostRank& lost) {
  {
    const std::lock_guard lock(mutex_);
    lost_ = lost;
    over_ = true;
    changed_.notify_all();
  }
  // Without the lock: it ends the process, or asks this watcher.
  if (options_.on_lost) options_.on_lost(lost);
}

LostRank Watcher::about_coordinator() const {
  LostRank lost;
  lost.rank = options_.coordinator;
  lost.host = coordinator_host_;
  lost.pid = coordinator_pid_;
  // The parent reports no progress.
  if (options_.coordinator != kParent) {
    lost.step = coordinator_progress_.step;
    lost.label = coordinator_progress_.label;
  }
  return lost;
}

void Watcher::send_beat() {
  // A stopped coordinator does not read; heartbeats must not pile up for it.
  if (channel_.has_unsent()) return;
  const Progress::Snapshot now = options_.progress->snapshot();
  channel_.send({{"is", "beat"}, {"step", now.step}, {"label", now.label}});
}

}  // namespace lockstep::launch
