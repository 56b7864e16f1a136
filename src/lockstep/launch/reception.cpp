#include "lockstep/launch/reception.h"

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>

#include "lockstep/base/error.h"
#include "lockstep/base/plain_text.h"
#include "lockstep/base/secret.h"
#include "lockstep/comm/operation.h"

namespace lockstep::launch {
namespace {

using std::chrono::milliseconds;

constexpr size_t kMostBytesBeforeHello = 4096;
constexpr std::chrono::seconds kHelloTimeout{5};
/// Time in which the hello of a process of the job arrives: nobody is sent away earlier to make room.
constexpr milliseconds kUndisturbed{100};
/// Time to wait for a descriptor to become free.
constexpr milliseconds kOutOfDescriptors{500};
constexpr milliseconds kTryAgain{50};

/// The answer of `rank` to the listener's challenge.
std::string proof_of_member(const std::string& token, const std::string& service, const std::string& job_id,
                            int rank, const std::string& challenge) {
  return answer_to(fmt::format("{}\n{}\nrank {}\n{}", service, job_id, rank, challenge), token);
}

std::string proof_of_listener(const std::string& token, const std::string& service, const std::string& job_id,
                              const std::string& challenge) {
  return answer_to(fmt::format("{}\n{}\nlistener\n{}", service, job_id, challenge), token);
}

/// Waits for one message; empty if the other end closed the connection. Throws TimeoutError.
std::optional<json> wait_for_message(Channel& channel, const std::string& where, comm::Deadline deadline) {
  while (true) {
    const bool open = channel.receive();
    if (auto message = channel.next()) return message;
    if (!open) return std::nullopt;
    if (Clock::now() >= deadline) throw TimeoutError(fmt::format("{} did not answer in time", where));
    pollfd wanted{channel.fd(), POLLIN, 0};
    ::poll(&wanted, 1, std::min(milliseconds_until(deadline), 1000));
  }
}

/// Empty if the listener has no room, or wants this process to come again.
std::optional<Welcome> try_to_enter(Channel channel, const Introduction& self, const std::string& where,
                                    comm::Deadline deadline) {
  const auto asked = wait_for_message(channel, where, deadline);
  if (!asked) return std::nullopt;
  const std::string challenge = random_secret();
  json hello = self.more;
  hello.update({{"is", "hello"},
                {"job", self.job_id},
                {"rank", self.rank},
                {"challenge", challenge},
                {"proof", proof_of_member(self.token, self.service, self.job_id, self.rank,
                                          asked->value("challenge", ""))}});
  channel.send(hello);
  auto answer = wait_for_message(channel, where, deadline);
  if (!answer || answer->value("is", "") == "again") return std::nullopt;
  if (answer->value("is", "") != "welcome") {
    throw TurnedAway(fmt::format("{} turned rank {} away: {}", where, self.rank,
                                 printable(answer->value("reason", "without a reason"))),
                     "Start the job anew; LOCKSTEP_TOKEN, where it is set, must be the same on all hosts.");
  }
  const std::string expected = proof_of_listener(self.token, self.service, self.job_id, challenge);
  if (!is_same_answer(answer->value("proof", ""), expected)) {
    throw TurnedAway(fmt::format("{} does not know the token of this job", where),
                     "Somebody else listens there: look for the process, or use another port.");
  }
  return Welcome{std::move(channel), std::move(*answer)};
}

/// The numeric address of the other end.
std::string address_of(const sockaddr_storage& address, socklen_t length) {
  char host[NI_MAXHOST] = "?";
  char port[NI_MAXSERV] = "?";
  ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), length, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
  return fmt::format("{}:{}", host, port);
}

}  // namespace

Welcome enter(const std::string& host, int port, const Introduction& self,
              std::chrono::duration<double> timeout) {
  const auto deadline = comm::deadline_after(timeout);
  const std::string where = fmt::format("the {} at {}:{}", self.service, host, port);
  while (true) {
    const std::chrono::duration<double> left = deadline - Clock::now();
    try {
      auto welcome = try_to_enter(Channel(connect_tcp(host, port, left)), self, where, deadline);
      if (welcome) return std::move(*welcome);
    } catch (const json::exception& error) {
      throw CommError(fmt::format("{} speaks another protocol: {}", where, error.what()));
    }
    if (Clock::now() + kTryAgain >= deadline) throw TimeoutError(fmt::format("{} lets nobody in", where));
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
  } catch (const json::exception&) {
    sane = false;
  }
  if (guest.channel.fd() < 0 || (open && sane && guest.channel.is_open())) return;
  if (guest.rank < 0) return keep_out(guest, guest.channel.has_received() ? "said no hello" : "");
  if (options_.ended) options_.ended(guest);
  guest.channel = Channel();
}

void Reception::receive_hello(Guest& guest, const json& hello) {
  const int64_t rank = hello.at("rank").is_number_integer() ? hello.at("rank").get<int64_t>() : -1;
  const bool proper =
      hello.at("is") == "hello" && hello.at("job") == options_.job_id && rank >= 0 && rank < options_.world;
  if (!proper) return refuse(guest, "named another job");
  const std::string expected = proof_of_member(options_.token, options_.service, options_.job_id,
                                               static_cast<int>(rank), guest.challenge);
  if (!is_same_answer(hello.at("proof").get<std::string>(), expected)) {
    return refuse(guest, "did not know the token of this job");
  }
  const std::string challenge = hello.at("challenge");
  json welcome;
  try {
    welcome = options_.admit(static_cast<int>(rank), hello);
  } catch (const TurnedAway& reason) {
    guest.channel.send({{"is", "turned away"}, {"reason", reason.what()}});
    return keep_out(guest, "");
  }
  if (welcome.is_null()) {
    guest.channel.send({{"is", "again"}});
    return keep_out(guest, "");
  }
  welcome.update(
      {{"is", "welcome"},
       {"proof", proof_of_listener(options_.token, options_.service, options_.job_id, challenge)}});
  guest.rank = static_cast<int>(rank);
  --unknown_;
  guest.channel.set_longest_message(Channel::kLongestMessageBytes);
  guest.channel.send(welcome);
  if (options_.entered) options_.entered(guest);
}

void Reception::refuse(Guest& guest, const std::string& reason) {
  guest.channel.send({{"is", "turned away"}, {"reason", "it " + reason}});
  keep_out(guest, reason);
}

void Reception::keep_out(Guest& guest, const std::string& reason) {
  --unknown_;
  guest.channel = Channel();
  // A connection that is only opened and closed again, as by a rank that was ended meanwhile, is nobody's
  // news.
  if (reason.empty() || std::exchange(stranger_named_, true) || !options_.on_stranger) return;
  options_.on_stranger(fmt::format(
      "a stranger at {} was kept out of the {} of this job: it {}; further strangers will not be named",
      guest.from, options_.service, reason));
}

void Reception::accept_all() {
  while (true) {
    if (unknown_ >= most_unknown()) make_room();
    if (unknown_ >= most_unknown()) return;
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    UniqueFd fd(::accept4(listener_.fd.get(), reinterpret_cast<sockaddr*>(&address), &length,
                          SOCK_CLOEXEC | SOCK_NONBLOCK));
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
                  .from = address_of(address, length),
                  .challenge = random_secret()};
    ++unknown_;
    guest.channel.send({{"challenge", guest.challenge}});
  }
}

void Reception::make_room() {
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

void Reception::drop_the_silent() {
  const auto now = Clock::now();
  for (auto& [fd, guest] : guests_) {
    if (guest.rank < 0 && now - guest.since > kHelloTimeout) keep_out(guest, "said no hello in time");
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
