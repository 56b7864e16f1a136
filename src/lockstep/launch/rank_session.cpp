#include "lockstep/launch/rank_session.h"

#include <algorithm>
#include <csignal>

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "lockstep/comm/operation.h"
#include "lockstep/launch/child_process.h"

namespace lockstep::launch {
namespace {

using Seconds = std::chrono::duration<double>;

/// Time for the job's server to name the lost rank, after a launcher that lost it has sent SIGTERM to the
/// others.
constexpr std::chrono::milliseconds kLauncherKnowsFirst{200};
/// Grace period to save results and report.
constexpr std::chrono::milliseconds kTimeToReport{2000};
/// The same if the others cannot see when it is over.
constexpr std::chrono::milliseconds kTimeToReportUnseen{500};
/// Time for the other ranks to come and learn that the job ends, before its server goes away with rank 0.
constexpr std::chrono::seconds kUntilInformed{2};
/// For a rank that fails before it has joined: rank 0 may be slower to the meeting than this rank was to its
/// error.
constexpr Seconds kUntilReported{5};
/// The least time from one attempt to connect to the next, and the most that one may take.
constexpr Seconds kBetweenAttempts{0.1};
constexpr Seconds kAttempt{2};
constexpr std::chrono::seconds kReportEvery{10};

void die_with_parent() {
  const pid_t parent = ::getppid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have ended before prctl.
  if (::getppid() != parent) ::raise(SIGKILL);
}

[[noreturn]] void wait_for_the_end() {
  while (true) ::pause();
}

/// A rank 0 that was stopped or has ended, and so cannot report to the user.
bool rank_0_cannot_report(const LostRank& lost) {
  return lost.rank == 0 && lost.kind != LostRank::Kind::kFailed && lost.kind != LostRank::Kind::kDisturbed;
}

}  // namespace

RankSession::RankSession(const RankEnvironment& environment, Options options)
    : environment_(environment), options_(std::move(options)) {
  // A lockstep parent has arranged this for the ranks that it starts itself, but not for those of mpirun.
  if (environment_.launcher == Launcher::kMpirun) die_with_parent();
  if (environment_.served_by_parent()) connect(options_.timeout);
  // Every thread started from now on inherits the blocked signals; only the signal thread takes them.
  block_signals(kEndingSignals);
  try {
    signal_thread_ = std::thread([this] { wait_for_signals(); });
  } catch (const std::exception& error) {
    // The server lets no rank in a second time.
    if (link_) link_->report(own_failure(error), kUntilReported);
    throw;
  }
  // If the parent is killed, rank 0 learns it from its link, reports it and saves the results.
  if (environment_.served_by_parent() && environment_.rank == 0) outlive_parent_by(kTimeToReport);
}

RankSession::~RankSession() {
  {
    const std::lock_guard lock(mutex_);
    // Another thread is about to end the process; nothing may be taken down under it.
    if (state_ == State::kDeparting) wait_for_the_end();
    state_ = State::kFinished;
  }
  wake_.wake();
  signal_thread_.join();
}

comm::Store& RankSession::join() {
  if (!environment_.served_by_parent() && environment_.world == 1) return own_store_;
  if (!has_tried_) connect(options_.join_timeout);
  link_->wait_met();
  const std::lock_guard lock(mutex_);
  rendezvous_.reset();
  return *link_;
}

Departure RankSession::fail(const std::exception& error, int rank, const Progress& progress) {
  set_state_or_wait(State::kFailing);
  if (!has_tried_ && environment_.world > 1) {
    try {
      connect(kUntilReported);
    } catch (const std::exception&) {
      // The others learn it from the launcher, or do not find this rank in time.
    }
  }
  const LostRank own = failure_of(rank, error, progress.snapshot());
  std::optional<LostRank> verdict;
  if (link_) verdict = link_->report(own, std::chrono::seconds(3));
  Departure departure = departure_for(verdict.value_or(own), verdict.has_value());
  if (let_others_learn(departure)) departure.prints = true;
  return departure;
}

void RankSession::finish() {
  set_state_or_wait(State::kFinished);
  // The server must outlive the goodbyes of the others, or they would take its end for a loss.
  if (link_) link_->goodbye();
  if (server_) server_->wait_finished(std::chrono::seconds(2));
}

void RankSession::leave(int exit_code) {
  if (JobServer* const server = server_if_any()) server->announce_report();
  ::_exit(exit_code);
}

void RankSession::connect(Seconds limit) {
  has_tried_ = true;
  auto rendezvous = std::make_unique<Rendezvous>(environment_, options_.open_agent_store);
  if (!rendezvous->hosts_server()) return find_server(*rendezvous, limit);

  Address at = rendezvous->address(limit);
  JobServer::Options options;
  options.job = environment_;
  options.job.token = at.token;
  options.host = at.host;
  options.port = at.port;
  options.timeout = options_.timeout;
  options.join_timeout = options_.join_timeout;
  options.on_waiting = options_.on_waiting;
  options.report_every = kReportEvery;
  options.on_stranger = options_.on_stranger;
  auto server = std::make_unique<JobServer>(std::move(options));
  rendezvous->publish(server->port(), limit);
  if (!is_loopback(at.host)) at.host = kLoopback;
  at.port = server->port();
  {
    const std::lock_guard lock(mutex_);
    server_ = std::move(server);
    rendezvous_ = std::move(rendezvous);
  }
  link_to(0, at, limit);
}

void RankSession::find_server(Rendezvous& rendezvous, Seconds limit) {
  const int server = environment_.served_by_parent() ? kParent : 0;
  const auto begin = Clock::now();
  auto next_line = begin + kReportEvery;
  while (true) {
    const auto earliest = Clock::now() + std::chrono::duration_cast<Clock::duration>(kBetweenAttempts);
    const Seconds time = std::clamp(Seconds(begin + limit - Clock::now()), kBetweenAttempts, kAttempt);
    Trouble last;
    try {
      // Looked up every time: at first it may be an earlier command's.
      return link_to(server, rendezvous.address(time), time);
    } catch (const TurnedAway& error) {
      // The port in the agent's store may be an earlier command's, and another program's by now.
      if (!environment_.uses_agent_store()) throw;
      last = trouble_of(error);
    } catch (const CommError& error) {
      const bool is_silent = dynamic_cast<const TimeoutError*>(&error) != nullptr;
      // A parent listens before it starts ranks: it is gone, or stopped and answers later.
      if (environment_.served_by_parent() && is_silent) continue;
      if (environment_.served_by_parent()) throw;
      last = trouble_of(error);
    }
    const auto now = Clock::now();
    if (now - begin >= limit) {
      throw TimeoutError(fmt::format("rank {} waited for rank 0 for {:g} s: {}", environment_.rank,
                                     limit.count(), last.what),
                         last.advice);
    }
    if (now >= next_line) {
      next_line += kReportEvery;
      if (environment_.speaks_for_host() && options_.on_waiting) {
        options_.on_waiting(waiting_line("rank 0", now - begin, limit, last.what));
      }
    }
    std::this_thread::sleep_until(earliest);
  }
}

void RankSession::link_to(int server, const Address& at, Seconds limit) {
  JobLink::Options options;
  options.job = environment_;
  options.rank = environment_.rank;
  options.server = server;
  options.at = at;
  options.join_timeout = limit;
  options.timeout = options_.timeout;
  options.progress = &progress_;
  options.on_lost = [this](const LostRank& lost) {
    const JobLink* link = link_if_any();
    const bool met = link != nullptr && link->met();
    // Before the meeting there may be no rank 1 to report that rank 0 is lost: each rank does.
    depart(departure_for(lost, met || environment_.served_by_parent() || !rank_0_cannot_report(lost)));
  };
  options.on_leave = [this](int signal) { depart(departure_for_signal(signal)); };
  auto link = std::make_unique<JobLink>(std::move(options));
  const std::lock_guard lock(mutex_);
  link_ = std::move(link);
}

JobLink* RankSession::link_if_any() {
  const std::lock_guard lock(mutex_);
  return link_.get();
}

JobServer* RankSession::server_if_any() {
  const std::lock_guard lock(mutex_);
  return server_.get();
}

void RankSession::set_state_or_wait(State state) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kDeparting) {
      state_ = state;
      return;
    }
  }
  wait_for_the_end();
}

void RankSession::wait_for_signals() {
  SignalPipe pipe(kEndingSignals);
  unblock_signals(kEndingSignals);
  while (true) {
    pollfd wanted[] = {{pipe.fd(), POLLIN, 0}, {wake_.fd(), POLLIN, 0}};
    ::poll(wanted, 2, -1);
    if (wanted[1].revents != 0) return;
    while (const auto signal = pipe.take()) on_signal(*signal);
  }
}

void RankSession::on_signal(int signal) {
  {
    const std::lock_guard lock(mutex_);
    // The work is done; the library that is shutting down may hang.
    if (state_ == State::kFinished) ::_exit(128 + signal);
    if (state_ != State::kRunning) return;
  }
  if (JobLink* const link = link_if_any()) {
    // A launcher sends it, too, when it has lost another rank, which the server may not know yet.
    const bool is_launchers = signal == SIGTERM && environment_.launcher != Launcher::kProcesses;
    if (is_launchers) {
      LostRank own = own_failure(CommError(""));
      own.reason = "was told to end by " + signal_name(signal);
      own.exit_code = 128 + signal;
      if (link->report(own, kLauncherKnowsFirst)) return;  // departs for that
      own.detail.clear();
      const std::lock_guard lock(mutex_);
      if (environment_.world > 1) told_to_end_ = own.trouble().what;
    }
    // Without its server the others would take the end of this rank for a crash.
    if (!is_launchers || server_) link->report_signal(signal);
  }
  depart(departure_for_signal(signal));
}

void RankSession::depart(Departure departure) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kRunning) return;
    state_ = State::kDeparting;
  }
  if (options_.on_departure) options_.on_departure(departure);
  if (let_others_learn(departure)) {
    departure.prints = true;
    if (options_.on_departure) options_.on_departure(departure);
  }
  leave(departure.exit_code);
}

bool RankSession::let_others_learn(const Departure& departure) {
  JobServer* const server = server_if_any();
  JobLink* const link = link_if_any();
  if (server != nullptr && departure.lost) server->wait_informed(kUntilInformed);
  {
    const std::lock_guard lock(mutex_);
    rendezvous_.reset();
  }
  // Launchers kill all remaining ranks as soon as one has ended: mpirun's second of grace after SIGTERM is
  // over then. So the rank that prints has to end first.
  if (departure.prints || environment_.served_by_parent() || link == nullptr) return false;
  if (departure.lost && rank_0_cannot_report(*departure.lost)) {
    std::this_thread::sleep_for(kTimeToReportUnseen);
    return false;
  }
  if (departure.lost) return !link->wait_reported(kTimeToReport) && environment_.speaks_for_host();
  link->wait_server_ended(kTimeToReport);
  return false;
}

LostRank RankSession::own_failure(const std::exception& error) const {
  return failure_of(environment_.rank, error, progress_.snapshot());
}

Departure RankSession::departure_for(const LostRank& lost, bool others_know) const {
  // Rank 0 reports to the user. If it is lost, its whole host may be: then a rank of each host does. A rank 0
  // that was only stopped does not repeat it: its server has got `abandoned` by then.
  const bool is_rank_0 = environment_.rank == 0;
  const bool reports = rank_0_cannot_report(lost) ? !is_rank_0 && environment_.speaks_for_host() : is_rank_0;
  const bool prints = lost.rank == kParent ? environment_.rank == 0
                                           : !others_know || (!environment_.served_by_parent() && reports);
  return {lost.trouble(), lost, prints};
}

Departure RankSession::departure_for_signal(int signal) {
  const bool prints = !environment_.served_by_parent() && environment_.rank == 0;
  const std::lock_guard lock(mutex_);
  const std::string what = told_to_end_.empty() ? ending_signal_text(signal) : told_to_end_;
  return {{what, "", 128 + signal}, std::nullopt, prints};
}

}  // namespace lockstep::launch
