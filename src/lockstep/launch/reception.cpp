#include "lockstep/launch/reception.h"

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lockstep/base/host_name.h"
#include "lockstep/base/peer_user.h"
#include "lockstep/base/secret.h"
#include "lockstep/comm/operation.h"

namespace lockstep::launch {
namespace {

using std::chrono::milliseconds;

constexpr size_t kMostBytesBeforeHello = 4096;
constexpr size_t kMostAccepted = 100;
/// Time to wait for a descriptor to become free.
constexpr milliseconds kOutOfDescriptors{500};
constexpr milliseconds kTryAgain{50};

/// The answer of `rank` to the listener's challenge.
std::string proof_of_member(const JobKey& job, int rank, const std::string& challenge) {
  return answer_to(fmt::format("{}\nrank {}\n{}", job.job_id, rank, challenge), job.token);
}

std::string proof_of_listener(const JobKey& job, const std::string& challenge) {
  return answer_to(fmt::format("{}\nlistener\n{}", job.job_id, challenge), job.token);
}

/// Waits for one message; empty if the other end closed the connection. Throws TimeoutError.
std::optional<Message> wait_for_message(Channel& channel, const std::string& where, comm::Deadline deadline) {
  while (true) {
    const bool open = channel.receive();
    if (auto message = channel.next()) return message;
    if (!open) return std::nullopt;
    if (Clock::now() >= deadline) throw TimeoutError(fmt::format("{} did not answer in time", where));
    pollfd wanted{channel.fd(), POLLIN, 0};
    ::poll(&wanted, 1, std::min(milliseconds_until(deadline), 1000));
  }
}

/// Empty if the listener has no room, or wants this process to come again, for the reason that `why` gets.
std::optional<Entered> try_to_enter(Channel channel, const JobKey& job, int rank, const std::string& where,
                                    comm::Deadline deadline, std::string& why) {
  const auto asked = wait_for_message(channel, where, deadline);
  if (!asked) return std::nullopt;
  const std::string challenge = random_secret();
  channel.send("hello", Hello{.job = job.job_id,
                              .rank = rank,
                              .host = host_name(),
                              .pid = ::getpid(),
                              .proof = proof_of_member(job, rank, asked->as<Text>().text),
                              .challenge = challenge});
  const auto answer = wait_for_message(channel, where, deadline);
  if (!answer) return std::nullopt;
  if (answer->is() == "again") {
    why = answer->as<Text>().text;
    return std::nullopt;
  }
  if (answer->is() == "refused") {
    throw TurnedAway(
        fmt::format("{} turned rank {} away: {}", where, rank, answer->as<Text>().text),
        "Start the job anew, every rank once; LOCKSTEP_TOKEN, where it is set, must be the same on "
        "all hosts.");
  }
  auto welcome = answer->as<Welcome>();
  if (!is_same_answer(welcome.proof, proof_of_listener(job, challenge))) {
    throw TurnedAway(fmt::format("{} does not know the token of this job", where),
                     "Somebody else listens there: look for the process, or use another port.");
  }
  return Entered{std::move(channel), std::move(welcome)};
}

}  // namespace

Entered enter(const std::string& host, int port, const JobKey& job, int rank,
              std::chrono::duration<double> timeout) {
  const auto deadline = comm::deadline_after(timeout);
  const std::string where = fmt::format("the job's server at {}:{}", host, port);
  std::string why = "it has no room";
  while (true) {
    Channel channel(connect_tcp(host, port, deadline));
    try {
      auto entered = try_to_enter(std::move(channel), job, rank, where, deadline, why);
      if (entered) return std::move(*entered);
    } catch (const CommError&) {
      throw;
    } catch (const Error& error) {
      throw CommError(fmt::format("{} speaks another protocol: {}", where, error.what()));
    }
    if (Clock::now() + kTryAgain >= deadline)
      throw TimeoutError(fmt::format("{} lets nobody in: {}", where, why));
    std::this_thread::sleep_for(kTryAgain);
  }
}

Reception::Reception(Listener listener, Options options)
    : listener_(std::move(listener)), options_(std::move(options)) {}

void Reception::add_to(std::vector<pollfd>& wanted) const {
  const auto now = Clock::now();
  const bool has_room = unknown_ < most_unknown() || std::ranges::any_of(guests_, [&](const auto& entry) {
                          return entry.second.rank < 0 && now - entry.second.since >= kUndisturbed;
                        });
  // poll() passes over a negative descriptor.
  wanted.push_back({has_room && now >= closed_until_ ? listener_.fd.get() : -1, POLLIN, 0});
  for (const auto& [fd, guest] : guests_) {
    wanted.push_back({fd, static_cast<short>(POLLIN | (guest.channel.has_unsent() ? POLLOUT : 0)), 0});
  }
}

void Reception::serve(std::span<const pollfd> polled) {
  // Connections are served before new ones are accepted: a new one may get the descriptor of one that ended.
  for (const pollfd& one : polled.subspan(1)) {
    const auto found = guests_.find(one.fd);
    if (found != guests_.end() && one.revents != 0) serve_one(found->second, one.revents);
  }
  std::erase_if(guests_, [](const auto& entry) { return entry.second.channel.fd() < 0; });
  if (polled[0].revents != 0) accept_all();
}

void Reception::serve_one(Guest& guest, short events) {
  if ((events & POLLOUT) != 0) guest.channel.flush();
  // A rank's last words are handled before the end of its connection: `failed` explains the end.
  const bool open = guest.channel.receive();
  bool sane = true;
  try {
    while (const auto message = guest.channel.next()) {
      if (guest.rank >= 0) {
        options_.handle(guest, *message);
      } else {
        receive_hello(guest, *message);
      }
    }
  } catch (const Error&) {
    sane = false;
  }
  if (guest.channel.fd() < 0 || (open && sane && guest.channel.is_open())) return;
  if (guest.rank < 0) return keep_out(guest, guest.channel.has_received() ? "said no hello" : "");
  options_.ended(guest);
  guest.channel = Channel();
}

void Reception::receive_hello(Guest& guest, const Message& message) {
  const auto hello = message.as<Hello>();
  const JobKey& job = options_.job;
  if (message.is() != "hello" || hello.job != job.job_id || hello.rank >= job.world) {
    return refuse(guest, "named another job");
  }
  if (!is_same_answer(hello.proof, proof_of_member(job, hello.rank, guest.challenge))) {
    return refuse(guest, "did not know the token of this job");
  }
  if (const auto denial = options_.admit(hello)) {
    guest.channel.send(denial->is_for_now ? "again" : "refused", Text{denial->reason});
    return keep_out(guest, "");
  }
  guest.rank = hello.rank;
  --unknown_;
  guest.channel.set_longest_message(Channel::kLongestMessageBytes);
  guest.channel.send(
      "welcome",
      Welcome{.proof = proof_of_listener(job, hello.challenge), .host = host_name(), .pid = ::getpid()});
  options_.entered(guest);
}

void Reception::refuse(Guest& guest, const std::string& reason) {
  guest.channel.send("refused", Text{"it " + reason});
  keep_out(guest, reason);
}

void Reception::keep_out(Guest& guest, const std::string& reason) {
  --unknown_;
  guest.channel = Channel();
  // A connection that is only opened and closed again, as by a rank that was ended meanwhile, is nobody's
  // news.
  if (!reason.empty()) name_stranger(fmt::format("{} {}", guest.from, reason));
}

void Reception::name_stranger(const std::string& sentence) {
  if (std::exchange(stranger_named_, true) || !options_.on_stranger) return;
  options_.on_stranger(fmt::format(
      "a stranger at {}, and was kept out of this job; further strangers will not be named", sentence));
}

void Reception::accept_all() {
  // No endless flood of connections keeps those of ranks from being served.
  for (size_t accepted = 0; accepted < kMostAccepted; ++accepted) {
    if (unknown_ >= most_unknown()) make_room();
    if (unknown_ >= most_unknown()) return;
    std::string from;
    UniqueFd fd = accept_from(listener_, from);
    if (!fd) {
      // These errors last: the listener would stay readable, and the loop would turn without end.
      const bool full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (full) closed_until_ = Clock::now() + kOutOfDescriptors;
      if (full || errno == EAGAIN || errno == EWOULDBLOCK) return;
      continue;
    }
    const int number = fd.get();
    Guest& guest = guests_[number];
    guest = Guest{.channel = Channel(std::move(fd), kMostBytesBeforeHello),
                  .rank = -1,
                  .since = Clock::now(),
                  .from = std::move(from),
                  .challenge = random_secret()};
    ++unknown_;
    guest.channel.send("challenge", Text{guest.challenge});
  }
}

void Reception::make_room() {
  for (auto& [fd, guest] : guests_) {
    if (guest.rank < 0 && peer_user(fd) == PeerUser::kOther) keep_out(guest, "belongs to another user");
  }
  std::erase_if(guests_, [](const auto& entry) { return entry.second.channel.fd() < 0; });
  if (unknown_ < most_unknown()) return;
  const auto now = Clock::now();
  auto eldest = guests_.end();
  for (auto entry = guests_.begin(); entry != guests_.end(); ++entry) {
    if (entry->second.rank >= 0 || now - entry->second.since < kUndisturbed) continue;
    if (eldest == guests_.end() || entry->second.since < eldest->second.since) eldest = entry;
  }
  if (eldest == guests_.end()) return;
  keep_out(eldest->second, "said no hello while others waited");
  guests_.erase(eldest);
}

void Reception::drop_the_silent(milliseconds patience) {
  const auto now = Clock::now();
  for (auto& [fd, guest] : guests_) {
    if (guest.rank < 0 && now - guest.since > patience) keep_out(guest, "said no hello in time");
  }
  std::erase_if(guests_, [](const auto& entry) { return entry.second.channel.fd() < 0; });
}

std::vector<Reception::Guest*> Reception::guests() {
  std::vector<Guest*> known;
  for (auto& [fd, guest] : guests_) {
    if (guest.rank >= 0) known.push_back(&guest);
  }
  return known;
}

}  // namespace lockstep::launch
