#include "lockstep/launch/job_server.h"

#include <algorithm>

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include "lockstep/base/host_name.h"
#include "lockstep/comm/operation.h"

namespace lockstep::launch {
namespace {

using Seconds = std::chrono::duration<double>;

/// Time for which an error that another loss may have caused is held back, for the other to show.
constexpr std::chrono::milliseconds kSettle{1000};
/// Silence that makes a rank the cause of another rank's complaint.
constexpr Seconds kSuspiciousSilence{2};

}  // namespace

JobServer::JobServer(Options options)
    : options_(std::move(options)),
      peers_(static_cast<size_t>(options_.job.world)),
      reception_(listen_tcp(options_.host, options_.port), reception_options()),
      started_(Clock::now()),
      next_line_(comm::deadline_after(options_.report_every)) {
  // Signals belong to the session's own thread, or to the supervisor's.
  const BlockedSignals blocked;
  thread_ = std::thread([this] { run(); });
}

JobServer::~JobServer() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    broadcast("end", Json::object());
  }
  wake_.wake();
  thread_.join();
  // All processes of the job have come: who has said nothing by now is none.
  if (met_) reception_.drop_the_silent(Reception::kUndisturbed);
}

void JobServer::declare_lost(LostRank lost) {
  const std::lock_guard lock(mutex_);
  if (!peer_of(lost.rank).finished) add_loss(with_facts(std::move(lost)));
}

void JobServer::announce_signal(int signal) {
  const std::lock_guard lock(mutex_);
  leaving_ = true;
  broadcast("leave", Leave{signal});
}

void JobServer::announce_report() {
  const std::lock_guard lock(mutex_);
  if (cause_) broadcast("end", Json::object());
}

std::vector<LostRank> JobServer::lost() const {
  const std::lock_guard lock(mutex_);
  std::vector<LostRank> all = lost_;
  // Losses are kept in the order in which they showed, in which the cause need not be first.
  if (!cause_) return all;
  std::stable_partition(all.begin(), all.end(), [&](const LostRank& l) { return l.rank == cause_->rank; });
  return all;
}

void JobServer::drain_messages(int rank) {
  std::unique_lock lock(mutex_);
  const Peer& peer = peer_of(rank);
  changed_.wait_for(lock, std::chrono::seconds(1),
                    [&] { return !peer.joined || peer.ended_at || peer.finished || peer.lost || cause_; });
}

bool JobServer::wait_finished(Seconds timeout) {
  std::unique_lock lock(mutex_);
  const auto all_finished = [&] { return std::ranges::all_of(peers_, &Peer::finished); };
  changed_.wait_for(lock, timeout, [&] { return all_finished() || cause_; });
  return all_finished();
}

void JobServer::wait_informed(Seconds timeout) {
  std::unique_lock lock(mutex_);
  const auto knows = [](const Peer& peer) { return peer.informed || peer.ended_at; };
  changed_.wait_for(lock, timeout,
                    [&] { return met_ || std::all_of(peers_.begin() + 1, peers_.end(), knows); });
}

Reception::Options JobServer::reception_options() {
  using Guest = Reception::Guest;
  return {.job = options_.job,
          .admit = [this](const Hello& hello) { return admit(hello); },
          .entered = [this](Guest& guest) { entered(guest); },
          .handle = [this](Guest& guest, const Message& message) { handle(guest, message); },
          .ended = [this](Guest& guest) { ended(guest); },
          .on_stranger = options_.on_stranger};
}

void JobServer::run() {
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

    std::string line;
    {
      const std::lock_guard lock(mutex_);
      // Set by the destructor, which has sent `end` under the same lock.
      if (stop_) return;
      wake_.take();
      reception_.serve(std::span(wanted).subspan(1));
      reception_.drop_the_silent(Reception::kPatience);
      line = check_missing(was_paused);
      check_silence(was_paused);
    }
    // Without the lock: writing to a terminal may block.
    if (!line.empty() && options_.on_waiting) options_.on_waiting(line);
  }
}

std::optional<Reception::Denial> JobServer::admit(const Hello& hello) {
  Peer& peer = peer_of(hello.rank);
  if (peer.joined) {
    // This may be the server of an earlier command, whose rank has ended while others have not.
    const bool has_left = peer.finished || peer.lost || peer.ended_at;
    return Reception::Denial{
        fmt::format("rank {} is there already (host {}, pid {})", hello.rank, peer.host, peer.pid), has_left};
  }
  peer.host = hello.host;
  peer.pid = hello.pid;
  peer.joined = true;
  peer.last_heard = Clock::now();
  return std::nullopt;
}

void JobServer::entered(Reception::Guest& guest) {
  if (cause_) return guest.channel.send("lost", *cause_);
  if (!std::ranges::all_of(peers_, &Peer::joined)) return;
  met_ = true;
  broadcast("met", Json::object());
}

void JobServer::handle(Reception::Guest& guest, const Message& message) {
  Peer& peer = peer_of(guest.rank);
  peer.last_heard = Clock::now();
  if (store_.handle(guest, message)) return;
  const std::string is = message.is();
  if (is == "beat") {
    peer.at = message.as<Progress::Snapshot>();
    // No more for a rank that does not read: it is stopped, and the answers would pile up here.
    if (!guest.channel.has_unsent()) guest.channel.send("beat", peer_of(0).at);
  } else if (is == "stranger") {
    reception_.name_stranger(message.as<Text>().text);
  } else if (is == "failed") {
    // The rank's account of itself, except for the facts that the server knows better.
    auto lost = message.as<LostRank>();
    lost.rank = guest.rank;
    lost.host = peer.host;
    lost.pid = peer.pid;
    peer.at = {lost.step, lost.label};
    add_loss(std::move(lost));
  } else if (is == "abandoned") {
    abandoned(message.as<LostRank>());
  } else if (is == "leave") {
    left_by_signal(guest.rank, message.as<Leave>().ending_signal());
  } else if (is == "heard") {
    peer.informed = true;
  } else if (is == "bye") {
    peer.finished = true;
    guest.channel.send("bye");
  }
  changed_.notify_all();
}

void JobServer::left_by_signal(int rank, int signal) {
  if (cause_ || leaving_) return;
  LostRank left = about(rank);
  left.kind = LostRank::Kind::kFailed;
  left.reason = "was told to end by " + signal_name(signal);
  left.exit_code = 128 + signal;
  peer_of(rank).lost = true;
  lost_.push_back(left);
  leaving_ = true;
  broadcast("leave", Leave{signal});
  set_cause(left);
}

void JobServer::abandoned(const LostRank& self) {
  if (cause_ || leaving_) return;
  lost_.push_back(self);
  set_cause(self);
}

void JobServer::ended(Reception::Guest& guest) {
  store_.forget(guest);
  peer_of(guest.rank).ended_at = Clock::now();
  changed_.notify_all();
}

std::string JobServer::check_missing(bool was_paused) {
  if (met_ || cause_ || leaving_) return "";
  const auto now = Clock::now();
  if (was_paused) started_ = now;
  const int world = options_.job.world;
  std::vector<int> ranks;
  for (int rank = 0; rank < world; ++rank) {
    if (!peer_of(rank).joined) ranks.push_back(rank);
  }
  if (now - started_ >= options_.join_timeout) {
    LostRank lost;
    lost.rank = kMissingRanks;
    lost.kind = LostRank::Kind::kFailed;
    lost.reason = fmt::format("only {} of {} ranks came within {:g} s: {} did not",
                              world - static_cast<int>(ranks.size()), world, options_.join_timeout.count(),
                              ranks_text(ranks));
    lost.advice = "Start the missing ranks or look for their messages; --join-timeout gives them more time.";
    lost_.push_back(lost);
    set_cause(lost);
    return "";
  }
  if (now < next_line_) return "";
  next_line_ = comm::deadline_after(options_.report_every);
  return waiting_line(fmt::format("{} of {}", ranks_text(ranks), world), now - started_,
                      options_.join_timeout, "");
}

void JobServer::check_silence(bool was_paused) {
  const auto now = Clock::now();
  if (cause_ || leaving_) return;
  const bool settled = disturbed_since_ && now - *disturbed_since_ >= kSettle;
  bool awaits_reason = false;
  for (int rank = 0; rank < options_.job.world && !cause_; ++rank) {
    Peer& peer = peer_of(rank);
    // The latter two cannot be lost again.
    if (!peer.joined || peer.finished || peer.lost) continue;
    LostRank lost = about(rank);
    if (peer.ended_at) {
      const bool is_early = now - *peer.ended_at < options_.end_deferral;
      awaits_reason = awaits_reason || is_early;
      if (is_early) continue;
      mark_ended(lost);
    } else {
      // A silent rank may have been paused together with this process: its time starts anew.
      if (was_paused) peer.last_heard = now;
      const Seconds silence = now - peer.last_heard;
      if (silence < options_.timeout && !(settled && silence > kSuspiciousSilence)) continue;
      mark_silent(lost, silence.count());
    }
    add_loss(std::move(lost));
  }
  // Nothing else showed: the first complaint is the cause after all.
  if (settled && !awaits_reason && !cause_) set_cause(lost_.front());
}

LostRank JobServer::about(int rank) const {
  LostRank lost;
  lost.rank = rank;
  return with_facts(std::move(lost));
}

LostRank JobServer::with_facts(LostRank lost) const {
  const Peer& peer = peer_of(lost.rank);
  lost.host = peer.host.empty() ? host_name() : peer.host;
  if (peer.pid != 0) lost.pid = peer.pid;
  lost.step = peer.at.step;
  lost.label = peer.at.label;
  return lost;
}

void JobServer::add_loss(LostRank lost) {
  Peer& peer = peer_of(lost.rank);
  // One loss per rank: its own report and the end of its connection are the same event.
  if (peer.lost || leaving_) return;
  peer.lost = true;
  lost_.push_back(lost);
  if (cause_) return;
  // An error that another loss may have caused waits for that to show, until check_silence() settles it.
  if (lost.kind != LostRank::Kind::kDisturbed) {
    set_cause(lost);
  } else if (!disturbed_since_) {
    disturbed_since_ = Clock::now();
  }
}

void JobServer::set_cause(const LostRank& lost) {
  cause_ = lost;
  if (!leaving_) broadcast("lost", lost);
  changed_.notify_all();
  if (options_.on_cause) options_.on_cause();
}

template <typename T>
void JobServer::broadcast(const char* is, const T& content) {
  std::vector<Reception::Guest*> joined = reception_.guests();
  // Rank 0 last: this may be its own process, which ends as soon as it reads the message, with all unsent
  // ones.
  std::ranges::sort(joined, std::ranges::greater(), &Reception::Guest::rank);
  for (Reception::Guest* guest : joined) guest->channel.send(is, content);
  wake_.wake();
}

}  // namespace lockstep::launch
