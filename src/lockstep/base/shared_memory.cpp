#include "lockstep/base/shared_memory.h"

#include <filesystem>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lockstep/base/secret.h"

namespace lockstep {

SharedMemory SharedMemory::make(const std::string& purpose) {
  // On another host, or in a container, another process may have something at that path.
  const std::string name = fmt::format("lockstep-{}-{}", purpose, random_secret());
  UniqueFd fd(::memfd_create(name.c_str(), MFD_CLOEXEC));
  std::string address = fmt::format("/proc/{}/fd/{} {}", ::getpid(), fd.get(), name);
  return {std::move(fd), std::move(address)};
}

UniqueFd open_shared_memory(const std::string& address) {
  const std::string path = address.substr(0, address.find(' '));
  std::error_code failed;
  const std::string target = std::filesystem::read_symlink(path, failed).string();
  if (failed || target.find(address.substr(path.size() + 1)) == std::string::npos) return {};
  return UniqueFd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
}

}  // namespace lockstep
