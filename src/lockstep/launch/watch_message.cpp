#include "lockstep/launch/watch_message.h"

#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <sys/socket.h>

#include "lockstep/base/plain_text.h"

namespace lockstep::launch {
namespace {

std::string text_of(const json& message, const char* key) {
  return printable(message.at(key).get<std::string>());
}

}  // namespace

json to_message(const LostRank& lost) {
  return {{"rank", lost.rank},     {"kind", static_cast<int>(lost.kind)},
          {"host", lost.host},     {"pid", lost.pid},
          {"reason", lost.reason}, {"detail", lost.detail},
          {"advice", lost.advice}, {"step", lost.step},
          {"label", lost.label},   {"exit_code", lost.exit_code}};
}

LostRank lost_rank_from(const json& message) {
  return {.rank = message.at("rank"),
          .kind = static_cast<LostRank::Kind>(message.at("kind").get<int>()),
          .host = text_of(message, "host"),
          .pid = message.at("pid"),
          .reason = text_of(message, "reason"),
          .detail = text_of(message, "detail"),
          .advice = text_of(message, "advice"),
          .step = message.at("step"),
          .label = text_of(message, "label"),
          .exit_code = failure_code(message.at("exit_code"))};
}

int ending_signal_from(const json& message) {
  const int signal = message.at("signal");
  return signal == SIGINT || signal == SIGHUP ? signal : SIGTERM;
}

Channel::Channel(UniqueFd fd, size_t longest_message_bytes)
    : fd_(std::move(fd)), longest_(longest_message_bytes) {
  // Set here, whatever made the socket: no call on a channel may block.
  const int flags = ::fcntl(fd_.get(), F_GETFL);
  ::fcntl(fd_.get(), F_SETFL, flags | O_NONBLOCK);
  set_nodelay(fd_.get());
}

void Channel::send(const json& message) {
  if (!open_) return;
  // Texts of exceptions may hold any bytes; those that are not UTF-8 are replaced.
  unsent_ += message.dump(-1, ' ', false, json::error_handler_t::replace);
  unsent_ += '\n';
  flush();
}

void Channel::flush() {
  while (!unsent_.empty()) {
    const ssize_t sent = ::send(fd_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      unsent_.erase(0, static_cast<size_t>(sent));
    } else if (errno != EINTR) {
      if (errno != EAGAIN && errno != EWOULDBLOCK) unsent_.clear();
      return;
    }
  }
}

bool Channel::receive() {
  char block[4096];
  while (open_) {
    const ssize_t got = ::recv(fd_.get(), block, sizeof block, MSG_DONTWAIT);
    if (got > 0) {
      has_received_ = true;
      received_.append(block, static_cast<size_t>(got));
      // Checked per block, so that a stranger cannot fill the memory.
      if (received_.size() > longest_) open_ = false;
    } else if (got == 0 || (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK)) {
      open_ = false;
    } else if (errno != EINTR) {
      break;
    }
  }
  return open_;
}

std::optional<json> Channel::next() {
  const size_t end = received_.find('\n');
  if (end == std::string::npos) return std::nullopt;
  // Without exceptions: anything that is not JSON is discarded, and ends the connection.
  json message = json::parse(received_.substr(0, end), nullptr, false);
  received_.erase(0, end + 1);
  if (!message.is_object()) {
    open_ = false;
    received_.clear();
    return std::nullopt;
  }
  return message;
}

}  // namespace lockstep::launch
