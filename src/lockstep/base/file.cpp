#include "lockstep/base/file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace fs = std::filesystem;
namespace {

/// In the same folder, so that the rename stays within one file system.
fs::path temporary_beside(const fs::path& path) {
  return path.parent_path() / fmt::format(".{}.{}.tmp", path.filename().string(), ::getpid());
}

/// Takes the result of open(). 0 on success, else errno.
int write_and_close(int fd, std::string_view text) {
  if (fd < 0) return errno;
  int error = 0;
  while (!text.empty() && error == 0) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  // Flushed before the rename: otherwise a crash could leave an empty file under the final name. EINVAL comes
  // from devices, pipes and file systems that cannot flush.
  if (error == 0 && ::fsync(fd) != 0 && errno != EINVAL) error = errno;
  if (::close(fd) != 0 && error == 0) error = errno;
  return error;
}

int create(const fs::path& path) {
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}

/// A rename would replace these (/dev/stdout, /dev/full), so they are written directly.
bool is_device_or_pipe(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored) && !fs::is_regular_file(path, ignored);
}

}  // namespace

void write_file_atomically(const fs::path& path, std::string_view text) {
  int error = 0;
  if (is_device_or_pipe(path)) {
    error = write_and_close(::open(path.c_str(), O_WRONLY | O_CLOEXEC), text);
  } else {
    const fs::path temporary = temporary_beside(path);
    error = write_and_close(create(temporary), text);
    if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
    if (error != 0) ::unlink(temporary.c_str());
  }
  if (error != 0) throw Error(fmt::format("cannot write '{}': {}", path.string(), std::strerror(error)));
}

void check_writable(const fs::path& path, std::string_view flag) {
  const auto refuse = [&](const std::string& reason) {
    throw ConfigError(fmt::format("{}: cannot write '{}': {}", flag, path.string(), reason),
                      "Choose a path in a folder that exists and that you may write to.");
  };
  if (path.empty()) refuse("the path is empty");
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) refuse("it is a folder");
  if (is_device_or_pipe(path)) {
    if (::access(path.c_str(), W_OK) != 0) refuse(std::strerror(errno));
    return;
  }
  const fs::path temporary = temporary_beside(path);
  const int error = write_and_close(create(temporary), "lockstep");
  ::unlink(temporary.c_str());
  if (error != 0) refuse(std::strerror(error));
}

std::string read_file(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  if (stream && fs::is_directory(path))
    throw Error(fmt::format("cannot read '{}': it is a folder", path.string()));
  if (stream) text << stream.rdbuf();
  if (!stream) throw Error(fmt::format("cannot read '{}': {}", path.string(), std::strerror(errno)));
  return std::move(text).str();
}

}  // namespace lockstep
