#include "lockstep/launch/job_link.h"

#include <fmt/format.h>
#include <poll.h>

#include "lockstep/base/error.h"
#include "lockstep/base/secret.h"
#include "lockstep/comm/operation.h"

namespace lockstep::launch {
namespace {

using Seconds = std::chrono::duration<double>;

/// Time to wait for the server's answer.
constexpr std::chrono::seconds kAnswer{1};
/// Leaves room for the key and for two digits a byte.
constexpr size_t kLongestValueBytes = Channel::kLongestMessageBytes / 2 - 4096;

/// The job with the token of its server's address.
JobKey key_of(const JobLink::Options& options) {
  JobKey job = options.job;
  job.token = options.at.token;
  return job;
}

}  // namespace

JobLink::JobLink(Options options) : options_(std::move(options)) {
  Entered entered =
      enter(options_.at.host, options_.at.port, key_of(options_), options_.rank, options_.join_timeout);
  channel_ = std::move(entered.channel);
  server_host_ = entered.welcome.host;
  server_pid_ = entered.welcome.pid;
  // Signals belong to the session's own thread.
  const BlockedSignals blocked;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::exception& error) {
    // The server lets no rank in a second time.
    channel_.send("failed", failure_of(options_.rank, error));
    throw;
  }
}

JobLink::~JobLink() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.wake();
  thread_.join();
}

void JobLink::wait_met() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return met_ || over_; });
  if (!met_) throw_over();
}

bool JobLink::met() const {
  const std::lock_guard lock(mutex_);
  return met_;
}

void JobLink::set(const std::string& key, const std::string& value) {
  if (value.size() > kLongestValueBytes) {
    throw Error(fmt::format("the store takes no value of {} bytes, as '{}' has", value.size(), key));
  }
  call("set", key, value, options_.timeout);
}

std::string JobLink::get(const std::string& key, Seconds timeout) {
  return call("get", key, "", timeout);
}

int64_t JobLink::add(const std::string& key, int64_t amount) {
  return std::stoll(call("add", key, std::to_string(amount), options_.timeout));
}

void JobLink::report_stranger(const std::string& sentence) {
  const std::lock_guard lock(mutex_);
  post("stranger", encode(Text{sentence}));
}

std::string JobLink::call(const char* is, const std::string& key, const std::string& value, Seconds timeout) {
  const auto deadline = comm::deadline_after(timeout);
  std::unique_lock lock(mutex_);
  const int64_t id = ++last_id_;
  const std::optional<std::string>& answer = answers_[id];
  post(is, encode(Entry{.id = id, .key = to_hexadecimal(key), .value = to_hexadecimal(value)}));
  changed_.wait_until(lock, deadline, [&] { return answer || over_; });
  const std::optional<std::string> digits = answer;
  answers_.erase(id);
  if (digits) return from_hexadecimal(*digits);
  if (over_) throw_over();
  const bool waits = is == std::string_view("get");
  if (waits) post("drop", encode(Entry{.id = id, .key = "", .value = ""}));
  throw TimeoutError(fmt::format("{} '{}' in the store at {}:{} within {:.3g} s",
                                 waits ? "nobody set" : "there was no answer for", key, options_.at.host,
                                 options_.at.port, timeout.count()),
                     "A rank may be missing or slow: look for its messages.");
}

void JobLink::throw_over() const {
  if (lost_) throw PeerLostError(lost_->trouble());
  throw PeerLostError(fmt::format("the job's server at {}:{} is gone", options_.at.host, options_.at.port),
                      "The process that hosts it has ended: look for its messages.");
}

std::optional<LostRank> JobLink::report(const LostRank& own, Seconds patience) {
  {
    const std::lock_guard lock(mutex_);
    post("failed", encode(own));
  }
  return wait_lost(patience);
}

void JobLink::goodbye() {
  std::unique_lock lock(mutex_);
  post("bye", Json::object());
  changed_.wait_for(lock, kAnswer, [this] { return over_; });
}

void JobLink::report_signal(int signal) {
  std::unique_lock lock(mutex_);
  post("leave", encode(Leave{signal}));
  // Waits for the answer: the server may be in this process, which is about to end.
  changed_.wait_for(lock, kAnswer, [this] { return leaving_ || over_; });
}

void JobLink::wait_server_ended(Seconds patience) const {
  const auto deadline = comm::deadline_after(patience);
  pollfd wanted{channel_.fd(), POLLRDHUP, 0};
  while (::poll(&wanted, 1, milliseconds_until(deadline)) < 0) continue;  // a signal
}

bool JobLink::wait_reported(Seconds patience) {
  // The link's thread has left the channel since it got the verdict.
  const auto deadline = comm::deadline_after(patience);
  bool open = true;
  bool reported = false;
  while (open && Clock::now() < deadline) {
    pollfd wanted{channel_.fd(), POLLIN, 0};
    ::poll(&wanted, 1, milliseconds_until(deadline));
    open = channel_.receive();
    while (const auto message = channel_.next()) reported = reported || message->is() == "end";
  }
  return reported;
}

std::optional<LostRank> JobLink::wait_lost(Seconds patience) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, patience, [this] { return lost_ || over_; });
  return lost_;
}

void JobLink::post(std::string is, Json content) {
  to_send_.emplace_back(std::move(is), std::move(content));
  wake_.wake();
}

void JobLink::run() {
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
    // After a pause of its own, this process does not know whether the server was silent.
    if (now - last_turn > kPaused) last_heard = now;
    last_turn = now;

    // Woken by another thread of this rank, with something to send or to end.
    if (wake_.take()) {
      const std::lock_guard lock(mutex_);
      for (auto& [is, content] : std::exchange(to_send_, {})) channel_.send(is, std::move(content));
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
    } catch (const Error&) {
      sane = false;
    }
    if (!open || !sane) {
      LostRank lost = about_server();
      mark_ended(lost);
      return lose(lost);
    }
    if (now - last_heard > options_.timeout) {
      LostRank lost = about_server();
      mark_silent(lost, Seconds(now - last_heard).count());
      // If it wakes up, it must not take the end of this rank for the cause.
      channel_.send("abandoned", lost);
      return lose(lost);
    }
  }
}

bool JobLink::handle(const Message& message) {
  const std::string is = message.is();
  if (is == "lost") {
    channel_.send("heard");
    lose(message.as<LostRank>());
    return false;
  }
  {
    const std::lock_guard lock(mutex_);
    if (is == "beat") {
      rank_0_at_ = message.as<Progress::Snapshot>();
    } else if (is == "got") {
      const auto answer = message.as<Entry>();
      const auto waiting = answers_.find(answer.id);
      if (waiting != answers_.end()) waiting->second = answer.value;
    }
    met_ = met_ || is == "met";
    leaving_ = leaving_ || is == "leave";
    over_ = over_ || is == "bye" || is == "end";
    changed_.notify_all();
    if (over_) return false;
  }
  // Without the lock, as in lose().
  if (is == "leave" && options_.on_leave) options_.on_leave(message.as<Leave>().ending_signal());
  return true;
}

void JobLink::lose(const LostRank& lost) {
  {
    const std::lock_guard lock(mutex_);
    lost_ = lost;
    over_ = true;
    changed_.notify_all();
  }
  // Without the lock: it ends the process, or asks this link.
  if (options_.on_lost) options_.on_lost(lost);
}

LostRank JobLink::about_server() const {
  LostRank lost;
  lost.rank = options_.server;
  lost.host = server_host_;
  lost.pid = server_pid_;
  // The parent trains nothing.
  if (options_.server != kParent) {
    lost.step = rank_0_at_.step;
    lost.label = rank_0_at_.label;
  }
  return lost;
}

void JobLink::send_beat() {
  // A stopped server does not read; heartbeats must not pile up for it.
  if (channel_.has_unsent()) return;
  channel_.send("beat", options_.progress->snapshot());
}

}  // namespace lockstep::launch
