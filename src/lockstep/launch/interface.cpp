#include "lockstep/launch/interface.h"

#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep::launch {

bool is_on_this_host(const std::string& name) {
  if (::if_nametoindex(name.c_str()) != 0) return true;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return false;
  bool here = false;
  for (const addrinfo* one = found; one != nullptr && !here; one = one->ai_next) {
    const int fd = ::socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, 0);
    // Only an address of this host can be bound.
    here = fd >= 0 && ::bind(fd, one->ai_addr, one->ai_addrlen) == 0;
    if (fd >= 0) ::close(fd);
  }
  ::freeaddrinfo(found);
  return here;
}

}  // namespace lockstep::launch
