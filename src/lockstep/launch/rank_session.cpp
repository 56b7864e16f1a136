#include "lockstep/launch/rank_session.h"

#include <algorithm>
#include <csignal>
#include <mutex>
#include <thread>

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/host_name.h"
#include "lockstep/launch/child_process.h"
#include "lockstep/launch/meeting.h"
#include "lockstep/launch/rendezvous.h"
#include "lockstep/launch/signals.h"
#include "lockstep/launch/tcp_socket.h"
#include "lockstep/launch/watch_coordinator.h"
#include "lockstep/launch/watcher.h"

namespace lockstep::launch {
namespace {

constexpr std::initializer_list<int> kEndingSignals{SIGINT, SIGTERM, SIGHUP};
/// Time for the watch to name the lost rank, after a launcher that lost it has sent SIGTERM to the others.
constexpr std::chrono::milliseconds kLauncherKnowsFirst{200};
/// The largest delay between the starts of two ranks.
constexpr std::chrono::duration<double> kStartsLate{120};
/// Time for a rank to keep what was measured and to tell the user.
constexpr std::chrono::milliseconds kTimeToTell{2000};
/// The same if the others cannot see when it is done.
constexpr std::chrono::milliseconds kTimeToTellUnseen{500};
constexpr const char* kWatchKey = "watch";

Address parse_address(const std::string& address, const std::string& token) {
  const size_t colon = address.rfind(':');
  return {address.substr(0, colon), std::stoi(address.substr(colon + 1)), token};
}

void die_with_parent() {
  const pid_t parent = ::getppid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have ended before prctl.
  if (::getppid() != parent) ::raise(SIGKILL);
}

[[noreturn]] void wait_for_the_end() {
  while (true) ::pause();
}

}  // namespace

class RankSession::Impl {
 public:
  Impl(const RankEnvironment& environment, Options options)
      : environment_(environment), options_(std::move(options)) {
    // A lockstep parent has arranged this for the ranks that it starts itself, but not for those of mpirun.
    if (environment.launcher == Launcher::kMpirun) die_with_parent();
    if (environment.supervised) {
      join(kParent, parse_address(environment.watch_address, environment.token));
    }
    // Every thread started from now on inherits the blocked signals; only the signal thread takes them.
    block_signals(kEndingSignals);
    signal_thread_ = std::thread([this] { wait_for_signals(); });
    // If the parent is killed, rank 0 learns it from the watch, says so and keeps what was measured.
    if (environment.supervised && environment.rank == 0) outlive_parent_by(kTimeToTell);
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      // Another thread is about to end the process; nothing may be taken down under it.
      if (state_ == State::kDeparting) wait_for_the_end();
      state_ = State::kFinished;
    }
    wake_.wake();
    signal_thread_.join();
  }

  void start_watch(comm::Store* store, const std::string& token) {
    if (environment_.supervised || environment_.world == 1) return;
    if (store == nullptr) throw ConfigError("the watch needs a store to meet in, where no parent supervises");
    const std::string host = environment_.on_one_host() ? kLoopback : environment_.master_addr;
    if (environment_.rank == 0) {
      WatchCoordinator::Options options;
      options.world = environment_.world;
      options.job_id = environment_.job_id;
      options.token = token;
      options.on_stranger = options_.on_stranger;
      options.host = host;
      options.timeout = options_.timeout;
      options.progress = &progress_;
      coordinator_ = std::make_unique<WatchCoordinator>(std::move(options));
      store->set(kWatchKey, fmt::format("{}:{}", host, coordinator_->port()));
      join(0, {host, coordinator_->port(), token});
    } else {
      join(0, parse_address(store->get(kWatchKey, std::max(options_.timeout, kStartsLate)), token));
    }
  }

  Progress& progress() { return progress_; }

  Departure fail(const std::exception& error) {
    set_state_or_wait(State::kFailing);
    // All ranks that came know of it, and rank 0 tells the user.
    if (const auto* failed = dynamic_cast<const MeetingFailed*>(&error);
        failed != nullptr && !environment_.supervised) {
      return {failed->exit_code(), failed->what(), failed->advice(), std::nullopt, environment_.rank == 0};
    }
    const LostRank own = own_failure(error);
    std::optional<LostRank> verdict;
    if (watcher_) verdict = watcher_->report(own, std::chrono::seconds(3));
    const Departure departure = departure_for(verdict.value_or(own), verdict.has_value());
    let_the_speaker_end_first(departure);
    return departure;
  }

  void finish() {
    set_state_or_wait(State::kFinished);
    // The coordinator must outlive the goodbyes of the others, or they would take its end for a loss.
    if (watcher_) watcher_->goodbye();
    if (coordinator_) coordinator_->wait_finished(std::chrono::seconds(2));
  }

 private:
  enum class State { kRunning, kDeparting, kFailing, kFinished };

  void join(int coordinator, const Address& at) {
    Watcher::Options options;
    options.rank = environment_.rank;
    options.coordinator = coordinator;
    options.job_id = environment_.job_id;
    options.token = at.token;
    options.host = at.host;
    options.port = at.port;
    options.timeout = options_.timeout;
    options.progress = &progress_;
    options.on_lost = [this](const LostRank& lost) { depart(departure_for(lost, true)); };
    options.on_leave = [this](int signal) { depart(departure_for_signal(signal)); };
    auto watcher = std::make_unique<Watcher>(std::move(options));
    const std::lock_guard lock(mutex_);
    watcher_ = std::move(watcher);
  }

  /// The watcher lives until the session ends, once it is there.
  Watcher* watcher_if_any() {
    const std::lock_guard lock(mutex_);
    return watcher_.get();
  }

  void set_state_or_wait(State state) {
    {
      const std::lock_guard lock(mutex_);
      if (state_ != State::kDeparting) {
        state_ = state;
        return;
      }
    }
    wait_for_the_end();
  }

  void wait_for_signals() {
    SignalPipe pipe(kEndingSignals);
    unblock_signals(kEndingSignals);
    while (true) {
      pollfd wanted[] = {{pipe.fd(), POLLIN, 0}, {wake_.fd(), POLLIN, 0}};
      ::poll(wanted, 2, -1);
      if (wanted[1].revents != 0) return;
      while (const auto signal = pipe.take()) on_signal(*signal);
    }
  }

  void on_signal(int signal) {
    {
      const std::lock_guard lock(mutex_);
      // The work is done; the library that is shutting down may hang.
      if (state_ == State::kFinished) leave(128 + signal);
      if (state_ != State::kRunning) return;
    }
    Watcher* watcher = watcher_if_any();
    if (watcher != nullptr) {
      const bool launcher_ends_it = signal == SIGTERM && environment_.launcher != Launcher::kProcesses;
      if (launcher_ends_it && watcher->wait_lost(kLauncherKnowsFirst)) return;  // departs for that
      watcher->tell_to_leave(signal);
    }
    depart(departure_for_signal(signal));
  }

  void depart(const Departure& departure) {
    {
      const std::lock_guard lock(mutex_);
      if (state_ != State::kRunning) return;
      state_ = State::kDeparting;
    }
    if (options_.on_departure) options_.on_departure(departure);
    let_the_speaker_end_first(departure);
    leave(departure.exit_code);
  }

  /// Launchers kill all remaining ranks as soon as one has ended: mpirun's second of grace after SIGTERM is
  /// over then. So the rank that prints has to end first.
  void let_the_speaker_end_first(const Departure& departure) {
    if (departure.prints || environment_.supervised) return;
    const Watcher* watcher = watcher_if_any();
    if (watcher == nullptr) return;
    if (departure.lost && rank_0_cannot_tell(*departure.lost)) {
      std::this_thread::sleep_for(kTimeToTellUnseen);
    } else {
      watcher->wait_coordinator_ended(kTimeToTell);
    }
  }

  LostRank own_failure(const std::exception& error) const {
    LostRank own = failure_of(environment_.rank, error);
    const Progress::Snapshot now = progress_.snapshot();
    own.step = now.step;
    own.label = now.label;
    return own;
  }

  static bool rank_0_cannot_tell(const LostRank& lost) {
    return lost.rank == 0 && lost.kind != LostRank::Kind::kFailed && lost.kind != LostRank::Kind::kDisturbed;
  }

  Departure departure_for(const LostRank& lost, bool others_know) const {
    Departure departure;
    departure.exit_code = lost.exit_code;
    departure.reason = describe(lost);
    departure.advice = lost.advice;
    departure.lost = lost;
    // Rank 0 tells the user, or rank 1 if rank 0 is lost. A rank 0 that was only stopped does not repeat it:
    // its coordinator has got `abandoned` by then.
    const bool speaker = environment_.rank == (rank_0_cannot_tell(lost) ? 1 : 0);
    departure.prints =
        lost.rank == kParent ? environment_.rank == 0 : !others_know || (!environment_.supervised && speaker);
    return departure;
  }

  Departure departure_for_signal(int signal) const {
    Departure departure;
    departure.exit_code = 128 + signal;
    departure.reason = ending_signal_text(signal);
    departure.prints = !environment_.supervised && environment_.rank == 0;
    return departure;
  }

  const RankEnvironment environment_;
  const Options options_;
  Progress progress_;
  std::mutex mutex_;
  State state_ = State::kRunning;
  std::unique_ptr<WatchCoordinator> coordinator_;
  std::unique_ptr<Watcher> watcher_;
  WakeUp wake_;
  std::thread signal_thread_;
};

RankSession::RankSession(const RankEnvironment& environment, Options options)
    : impl_(std::make_unique<Impl>(environment, std::move(options))) {}
RankSession::~RankSession() = default;

void RankSession::start_watch(comm::Store* store, const std::string& token) {
  impl_->start_watch(store, token);
}
Progress& RankSession::progress() {
  return impl_->progress();
}
Departure RankSession::fail(const std::exception& error) {
  return impl_->fail(error);
}
void RankSession::finish() {
  impl_->finish();
}
void RankSession::leave(int exit_code) {
  ::_exit(exit_code);
}

}  // namespace lockstep::launch
