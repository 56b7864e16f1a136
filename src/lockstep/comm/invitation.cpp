#include "lockstep/comm/invitation.h"

#include <algorithm>
#include <cerrno>
#include <deque>
#include <sstream>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

/// Connections that have proved nothing yet; the eldest goes when more come.
constexpr size_t kMostUnproven = 256;
constexpr std::chrono::milliseconds kTryAgain{10};
/// The other rank listens already: a connection that takes longer leads nowhere. The system tries for 135 s.
constexpr std::chrono::seconds kLongestConnect{20};

/// Adds what has arrived of `bytes` bytes; false once the other end has closed the connection.
bool read_more(const UniqueFd& fd, std::string& text, size_t bytes) {
  char buffer[128];
  const ssize_t got = ::recv(fd.get(), buffer, std::min(sizeof buffer, bytes - text.size()), MSG_DONTWAIT);
  if (got > 0) text.append(buffer, static_cast<size_t>(got));
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

/// A proof fits into the buffers of a new connection.
void send_proof(const UniqueFd& fd, const std::string& proof) {
  ::send(fd.get(), proof.data(), proof.size(), MSG_NOSIGNAL);
}

}  // namespace

std::string Invitation::text() const {
  return fmt::format("{} {} {}", address_, listener_.port, secret_);
}

UniqueFd Invitation::wait(Deadline deadline,
                          const std::function<void(const std::string&)>& on_stranger) const {
  struct Unproven {
    UniqueFd fd;
    std::string from;
    std::string said;
  };
  const std::string expected = answer_to("guest", secret_);
  std::deque<Unproven> all;
  while (Clock::now() < deadline) {
    std::vector<pollfd> wanted{{listener_.fd.get(), POLLIN, 0}};
    for (const Unproven& one : all) wanted.push_back({one.fd.get(), POLLIN, 0});
    ::poll(wanted.data(), wanted.size(), std::min(milliseconds_until(deadline), 1000));
    for (size_t i = 0; i < all.size(); ++i) {
      Unproven& one = all[i];
      if (wanted[i + 1].revents == 0) continue;
      const bool open = read_more(one.fd, one.said, expected.size());
      if (is_same_answer(one.said, expected)) {
        send_proof(one.fd, answer_to("host", secret_));
        UniqueFd proven = std::move(one.fd);
        for (const Unproven& other : all) {
          if (other.fd) on_stranger(other.from + " said nothing that only a rank knows");
        }
        return proven;
      }
      const bool is_wrong = one.said.size() == expected.size();
      if (is_wrong) on_stranger(one.from + " did not know the secret of this connection");
      if (is_wrong || !open) one.fd = UniqueFd();
    }
    std::erase_if(all, [](const Unproven& one) { return !one.fd; });
    if (wanted[0].revents == 0) continue;
    Unproven next;
    next.fd = accept_from(listener_, next.from);
    if (next.fd) {
      all.push_back(std::move(next));
    } else {
      std::this_thread::sleep_for(kTryAgain);
    }
    if (all.size() <= kMostUnproven) continue;
    on_stranger(all.front().from + " said nothing while others waited");
    all.pop_front();
  }
  throw TimeoutError(fmt::format("no rank connected to {}:{} in time", address_, listener_.port));
}

UniqueFd Invitation::follow(const std::string& text, const std::string& from, Deadline deadline) {
  std::istringstream fields(text);
  std::string address;
  int port = 0;
  std::string secret;
  fields >> address >> port >> secret;
  const std::string expected = answer_to("host", secret);
  while (true) {
    UniqueFd fd = connect_tcp(address, port, std::min(deadline, Clock::now() + kLongestConnect), from);
    send_proof(fd, answer_to("guest", secret));
    std::string answer;
    bool open = true;
    while (open && answer.size() < expected.size() && Clock::now() < deadline) {
      pollfd wanted{fd.get(), POLLIN, 0};
      if (::poll(&wanted, 1, std::min(milliseconds_until(deadline), 1000)) > 0)
        open = read_more(fd, answer, expected.size());
    }
    if (is_same_answer(answer, expected)) return fd;
    if (answer.size() == expected.size()) {
      throw CommError(fmt::format("whoever listens at {}:{} is no rank of this job", address, port));
    }
    if (Clock::now() >= deadline) {
      throw TimeoutError(fmt::format("the rank at {}:{} did not answer in time", address, port));
    }
    // Sent away to make room: strangers crowd the port.
    std::this_thread::sleep_for(kTryAgain);
  }
}

std::vector<UniqueFd> connect_ranks(Store& store, const std::string& prefix, int rank, int size,
                                    const std::string& address, Deadline deadline) {
  const auto key = [&](int host, int guest) { return fmt::format("{}/{}-{}", prefix, host, guest); };
  std::deque<Invitation> invitations;
  for (int guest = rank + 1; guest < size; ++guest)
    store.set(key(rank, guest), invitations.emplace_back(address).text());
  std::vector<UniqueFd> connections(static_cast<size_t>(size));
  // In the order of the ranks on all of them: of the pairs that are not connected yet, the two ranks of the
  // first are free to connect.
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    UniqueFd& connection = connections[static_cast<size_t>(peer)];
    if (peer < rank) {
      connection = Invitation::follow(store.get(key(peer, rank), Duration(deadline - Clock::now())), address,
                                      deadline);
    } else {
      connection = invitations.front().wait(
          deadline, [&](const std::string& stranger) { store.report_stranger(stranger); });
      invitations.pop_front();
    }
    set_nodelay(connection.get());
  }
  return connections;
}

}  // namespace lockstep::comm
