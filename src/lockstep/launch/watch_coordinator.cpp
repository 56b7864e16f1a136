#include "lockstep/launch/watch_coordinator.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include "lockstep/base/host_name.h"
#include "lockstep/base/plain_text.h"

namespace lockstep::launch {
namespace {

/// Time for which an error that another loss may have caused is held back, for the other to show.
constexpr std::chrono::milliseconds kSettle{1000};
/// Silence that makes a rank the cause of another rank's complaint.
constexpr std::chrono::milliseconds kSuspiciousSilence{2000};

double seconds_since(Clock::time_point time) {
  return std::chrono::duration<double>(Clock::now() - time).count();
}

}  // namespace

WatchCoordinator::WatchCoordinator(Options options)
    : options_(std::move(options)),
      peers_(static_cast<size_t>(options_.world)),
      reception_(listen_tcp(options_.host, 0), reception_options()),
      started_(Clock::now()) {
  // Signals belong to the session's own thread, or to the supervisor's.
  const BlockedSignals blocked;
  thread_ = std::thread([this] { run(); });
}

WatchCoordinator::~WatchCoordinator() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    broadcast({{"is", "end"}});
  }
  wake_.wake();
  thread_.join();
}

void WatchCoordinator::declare_lost(int rank, const std::string& reason, const std::string& advice,
                                    int exit_code) {
  const std::lock_guard lock(mutex_);
  Peer& peer = peer_of(rank);
  if (peer.lost || peer.finished || leaving_) return;
  LostRank lost = about(rank);
  lost.reason = reason;
  lost.advice = advice;
  lost.exit_code = exit_code;
  add_loss(std::move(lost));
}

void WatchCoordinator::tell_to_leave(int signal) {
  const std::lock_guard lock(mutex_);
  leaving_ = true;
  broadcast({{"is", "leave"}, {"signal", signal}});
}

std::optional<LostRank> WatchCoordinator::cause() const {
  const std::lock_guard lock(mutex_);
  return cause_;
}

std::vector<LostRank> WatchCoordinator::lost() const {
  const std::lock_guard lock(mutex_);
  std::vector<LostRank> all = lost_;
  // Losses are kept in the order in which they showed, in which the cause need not be first.
  if (cause_) {
    std::stable_partition(all.begin(), all.end(), [&](const LostRank& l) { return l.rank == cause_->rank; });
  }
  return all;
}

bool WatchCoordinator::finished(int rank) const {
  const std::lock_guard lock(mutex_);
  return peer_of(rank).finished;
}

void WatchCoordinator::hear_out(int rank) {
  std::unique_lock lock(mutex_);
  const Peer& peer = peer_of(rank);
  changed_.wait_for(lock, std::chrono::seconds(1),
                    [&] { return !peer.joined || peer.ended_at || peer.finished || peer.lost || cause_; });
}

bool WatchCoordinator::wait_finished(std::chrono::duration<double> timeout) {
  std::unique_lock lock(mutex_);
  const auto all_finished = [&] { return std::ranges::all_of(peers_, &Peer::finished); };
  changed_.wait_for(lock, timeout, [&] { return all_finished() || cause_; });
  return all_finished();
}

std::vector<int64_t> WatchCoordinator::connected_pids() {
  const std::lock_guard lock(mutex_);
  std::vector<int64_t> pids;
  for (const Reception::Guest* guest : reception_.guests()) {
    const Peer& peer = peer_of(guest->rank);
    if (peer.host == host_name()) pids.push_back(peer.pid);
  }
  return pids;
}

Reception::Options WatchCoordinator::reception_options() {
  using Guest = Reception::Guest;
  return {.service = kWatchService,
          .job_id = options_.job_id,
          .token = options_.token,
          .world = options_.world,
          .admit = [this](int rank, const json& hello) { return admit(rank, hello); },
          .entered =
              [this](Guest& guest) {
                if (cause_) guest.channel.send({{"is", "lost"}, {"lost", to_message(*cause_)}});
              },
          .handle = [this](Guest& guest, const json& message) { handle(guest, message); },
          .ended = [this](Guest& guest) { connection_ended(guest.rank); },
          .on_stranger = options_.on_stranger};
}

void WatchCoordinator::run() {
  auto last_turn = Clock::now();
  std::vector<pollfd> wanted;
  while (true) {
    // The lock is not held during poll: declare_lost() and others send through the same connections.
    {
      const std::lock_guard lock(mutex_);
      if (stop_) return;
      wanted = {{wake_.fd(), POLLIN, 0}};
      reception_.add_to(wanted);
    }
    ::poll(wanted.data(), wanted.size(), static_cast<int>(kHeartbeatPeriod.count()));
    const auto now = Clock::now();
    const bool was_paused = now - last_turn > kPaused;
    last_turn = now;

    const std::lock_guard lock(mutex_);
    // Set by the destructor, which has sent `end` under the same lock.
    if (stop_) return;
    wake_.take();
    reception_.serve(std::span(wanted).subspan(1));
    reception_.drop_the_silent();
    check_times(was_paused);
  }
}

json WatchCoordinator::admit(int rank, const json& hello) {
  Peer& peer = peer_of(rank);
  if (peer.joined) throw TurnedAway(fmt::format("rank {} has joined already", rank));
  peer.host = printable(hello.at("host").get<std::string>());
  peer.pid = hello.at("pid");
  peer.joined = true;
  peer.last_heard = Clock::now();
  return {{"host", host_name()}, {"pid", ::getpid()}};
}

void WatchCoordinator::handle(Reception::Guest& guest, const json& message) {
  const std::string is = message.at("is");
  Peer& peer = peer_of(guest.rank);
  peer.last_heard = Clock::now();
  if (is == "beat") {
    peer.step = message.at("step");
    peer.label = printable(message.at("label").get<std::string>());
    // No more for a rank that does not read: it is stopped, and the answers would pile up here.
    if (!guest.channel.has_unsent()) {
      const Progress::Snapshot own = options_.progress ? options_.progress->snapshot() : Progress::Snapshot{};
      guest.channel.send({{"is", "beat"}, {"step", own.step}, {"label", own.label}});
    }
  } else if (is == "failed") {
    // The rank's account of itself, except for what the coordinator knows better.
    LostRank lost = lost_rank_from(message.at("lost"));
    lost.rank = guest.rank;
    lost.host = peer.host;
    lost.pid = peer.pid;
    peer.step = lost.step;
    peer.label = lost.label;
    add_loss(std::move(lost));
  } else if (is == "abandoned") {
    abandoned(lost_rank_from(message.at("lost")));
  } else if (is == "leave") {
    left_by_signal(guest.rank, ending_signal_from(message));
  } else if (is == "bye") {
    peer.finished = true;
    guest.channel.send({{"is", "bye"}});
    changed_.notify_all();
  }
}

void WatchCoordinator::left_by_signal(int rank, int signal) {
  if (cause_ || leaving_) return;
  LostRank left = about(rank);
  left.kind = LostRank::Kind::kFailed;
  left.reason = "was told to end by " + signal_name(signal);
  left.exit_code = 128 + signal;
  peer_of(rank).lost = true;
  lost_.push_back(left);
  leaving_ = true;
  broadcast({{"is", "leave"}, {"signal", signal}});
  set_cause(left);
}

void WatchCoordinator::abandoned(const LostRank& self) {
  if (cause_ || leaving_) return;
  lost_.push_back(self);
  set_cause(self);
}

void WatchCoordinator::connection_ended(int rank) {
  Peer& peer = peer_of(rank);
  if (!peer.finished && !peer.lost && !cause_ && !leaving_) peer.ended_at = Clock::now();
  changed_.notify_all();
}

void WatchCoordinator::check_times(bool was_paused) {
  const auto now = Clock::now();
  if (cause_ || leaving_) return;
  const bool settled = disturbed_since_ && now - *disturbed_since_ >= kSettle;
  for (int rank = 0; rank < options_.world && !cause_; ++rank) {
    Peer& peer = peer_of(rank);
    // Neither can be lost again.
    if (peer.finished || peer.lost) continue;
    LostRank lost = about(rank);
    if (peer.ended_at) {
      if (now - *peer.ended_at < options_.end_deferral) continue;
      mark_ended(lost);
      add_loss(std::move(lost));
      continue;
    }
    if (was_paused) {
      // A silent rank may have been paused together with this process: its time starts anew.
      peer.last_heard = now;
      continue;
    }
    const double silent_s = seconds_since(peer.joined ? peer.last_heard : started_);
    const auto allowed = peer.joined ? options_.timeout : std::max(options_.timeout, options_.join_timeout);
    const bool suspicious =
        settled && peer.joined && silent_s > std::chrono::duration<double>(kSuspiciousSilence).count();
    if (silent_s < allowed.count() && !suspicious) continue;
    mark_silent(lost, silent_s);
    if (!peer.joined) lost.reason = "did not join the watch";
    add_loss(std::move(lost));
  }
  // Nothing else showed: the first complaint is the cause after all.
  if (settled && !cause_) set_cause(lost_.front());
}

LostRank WatchCoordinator::about(int rank) const {
  const Peer& peer = peer_of(rank);
  LostRank lost;
  lost.rank = rank;
  lost.host = peer.host.empty() ? host_name() : peer.host;
  lost.pid = peer.pid;
  lost.step = peer.step;
  lost.label = peer.label;
  return lost;
}

void WatchCoordinator::add_loss(LostRank lost) {
  Peer& peer = peer_of(lost.rank);
  // One loss per rank: its own report and the end of its connection are the same event.
  if (peer.lost || leaving_) return;
  peer.lost = true;
  lost_.push_back(lost);
  if (cause_) return;
  // An error that another loss may have caused waits for that to show, until check_times() settles it.
  if (lost.kind != LostRank::Kind::kDisturbed) {
    set_cause(lost);
  } else if (!disturbed_since_) {
    disturbed_since_ = Clock::now();
  }
}

void WatchCoordinator::set_cause(const LostRank& lost) {
  cause_ = lost;
  if (!leaving_) broadcast({{"is", "lost"}, {"lost", to_message(lost)}});
  changed_.notify_all();
  if (options_.on_cause) options_.on_cause();
}

void WatchCoordinator::broadcast(const json& message) {
  std::vector<Reception::Guest*> joined = reception_.guests();
  // Rank 0 last: this may be its own process, which ends as soon as it reads the message, with all unsent
  // ones.
  std::ranges::sort(joined, std::ranges::greater(), &Reception::Guest::rank);
  for (Reception::Guest* guest : joined) guest->channel.send(message);
  wake_.wake();
}

}  // namespace lockstep::launch
