#include "lockstep/launch/channel.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/socket.h>

namespace lockstep::launch {

std::string Message::is() const {
  const auto found = content_.find("is");
  return found != content_.end() && found->is_string() ? found->get<std::string>() : "";
}

Channel::Channel(UniqueFd fd, size_t longest_message_bytes)
    : fd_(std::move(fd)), longest_(longest_message_bytes) {
  // Set here, whatever made the socket: no call on a channel may block.
  const int flags = ::fcntl(fd_.get(), F_GETFL);
  ::fcntl(fd_.get(), F_SETFL, flags | O_NONBLOCK);
  set_nodelay(fd_.get());
}

void Channel::send(std::string_view is, Json content) {
  if (!open_) return;
  content["is"] = is;
  // Texts of exceptions may hold any bytes; those that are not UTF-8 are replaced.
  unsent_ += content.dump(-1, ' ', false, Json::error_handler_t::replace);
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
      if (received_.size() <= longest_) continue;
      // Checked per block, so that a stranger cannot fill the memory. Several messages may be longer
      // together: the rest is received when next() has taken them.
      if (received_.find('\n') == std::string::npos) open_ = false;
      break;
    } else if (got == 0 || (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK)) {
      open_ = false;
    } else if (errno != EINTR) {
      break;
    }
  }
  return open_;
}

std::optional<Message> Channel::next() {
  const size_t end = received_.find('\n');
  if (end == std::string::npos) return std::nullopt;
  // Without exceptions: anything that is not JSON is discarded, and ends the connection.
  nlohmann::json content = nlohmann::json::parse(received_.substr(0, end), nullptr, false);
  received_.erase(0, end + 1);
  if (!content.is_object()) {
    open_ = false;
    received_.clear();
    return std::nullopt;
  }
  return Message(std::move(content));
}

}  // namespace lockstep::launch
