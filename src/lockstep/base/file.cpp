#include "lockstep/base/file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace fs = std::filesystem;
namespace {

constexpr size_t kMostBytes = size_t{2} << 30;

/// The file behind symbolic links, whether it exists or not.
fs::path target_of(const fs::path& path) {
  std::error_code failed;
  if (!fs::is_symlink(path, failed)) return path;
  const fs::path target = fs::weakly_canonical(path, failed);
  return failed ? path : target;
}

/// A new file in the same folder, so that the rename stays within one file system.
struct Temporary {
  std::string path;
  int fd = -1;
};

Temporary create_beside(const fs::path& path) {
  std::random_device random;
  Temporary made;
  // As mkstemp, which would not apply the umask. O_EXCL: a link that somebody planted is not followed.
  do {
    made.path =
        (path.parent_path() / fmt::format(".{}.{:08x}.tmp", path.filename().string(), random())).string();
    made.fd = ::open(made.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (made.fd < 0 && errno == EEXIST);
  struct ::stat old {};
  if (made.fd >= 0 && ::stat(path.c_str(), &old) == 0) ::fchmod(made.fd, old.st_mode & 07777);
  return made;
}

/// Takes the result of open(). 0 on success, else errno.
int write_and_close(int fd, const std::vector<std::string_view>& parts) {
  if (fd < 0) return errno;
  int error = 0;
  for (std::string_view text : parts) {
    while (!text.empty() && error == 0) {
      const ssize_t written = ::write(fd, text.data(), text.size());
      if (written >= 0) {
        text.remove_prefix(static_cast<size_t>(written));
      } else if (errno != EINTR) {
        error = errno;
      }
    }
  }
  // Flushed before the rename: otherwise a crash could leave an empty file under the final name. EINVAL comes
  // from devices, pipes and file systems that cannot flush.
  if (error == 0 && ::fsync(fd) != 0 && errno != EINVAL) error = errno;
  if (::close(fd) != 0 && error == 0) error = errno;
  return error;
}

/// A rename would replace these (/dev/stdout, /dev/full), so they are written directly.
bool is_device_or_pipe(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored) && !fs::is_regular_file(path, ignored);
}

}  // namespace

void write_file_atomically(const fs::path& path, std::string_view text) {
  write_file_atomically(path, std::vector{text});
}

void write_file_atomically(const fs::path& path, const std::vector<std::string_view>& parts) {
  int error = 0;
  if (is_device_or_pipe(path)) {
    error = write_and_close(::open(path.c_str(), O_WRONLY | O_CLOEXEC), parts);
  } else {
    const fs::path target = target_of(path);
    const Temporary temporary = create_beside(target);
    error = write_and_close(temporary.fd, parts);
    if (error == 0 && ::rename(temporary.path.c_str(), target.c_str()) != 0) error = errno;
    if (error != 0 && temporary.fd >= 0) ::unlink(temporary.path.c_str());
  }
  if (error != 0) throw Error(fmt::format("cannot write '{}': {}", path.string(), std::strerror(error)));
}

namespace {

void check_writable(const GivenFile& output) {
  const auto refuse = [&](const std::string& reason) {
    throw ConfigError(fmt::format("{}: cannot write '{}': {}", output.flag, output.path.string(), reason),
                      "Choose a path in a folder that exists and that you may write to.");
  };
  std::error_code ignored;
  if (fs::is_directory(output.path, ignored)) refuse("it is a folder");
  if (is_device_or_pipe(output.path)) {
    if (::access(output.path.c_str(), W_OK) != 0) refuse(std::strerror(errno));
    return;
  }
  const Temporary temporary = create_beside(target_of(output.path));
  const int error = write_and_close(temporary.fd, {"lockstep"});
  if (temporary.fd >= 0) ::unlink(temporary.path.c_str());
  if (error != 0) refuse(std::strerror(error));
}

bool is_a_file(const GivenFile& given) {
  return !given.path.empty() && given.path != "-";
}

}  // namespace

bool is_same_file(const fs::path& a, const fs::path& b) {
  std::error_code failed;
  if (fs::equivalent(a, b, failed)) return !is_device_or_pipe(a);
  return fs::weakly_canonical(a, failed) == fs::weakly_canonical(b, failed);
}

fs::path temporary_path(const std::string& name) {
  const char* chosen = std::getenv("TMPDIR");
  return fs::path(chosen == nullptr || *chosen == '\0' ? "/tmp" : chosen) / name;
}

void make_private_folder(const fs::path& folder) {
  const auto refuse = [&](const std::string& reason) {
    throw ConfigError(
        fmt::format("'{}' cannot hold temporary files: {}", folder.parent_path().string(), reason),
        "Set TMPDIR to a folder that you may write to.");
  };
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) refuse(std::strerror(errno));
  struct ::stat facts {};
  if (::lstat(folder.c_str(), &facts) != 0) refuse(std::strerror(errno));
  if (!S_ISDIR(facts.st_mode) || facts.st_uid != ::geteuid() || (facts.st_mode & 0077) != 0)
    refuse(fmt::format("'{}' is not a folder of yours alone", folder.string()));
  if (::access(folder.c_str(), W_OK | X_OK) != 0) refuse(std::strerror(errno));
}

void check_outputs(const std::vector<GivenFile>& outputs, const std::vector<GivenFile>& inputs) {
  for (auto output = outputs.begin(); output != outputs.end(); ++output) {
    if (!is_a_file(*output)) continue;
    for (const GivenFile& input : inputs) {
      if (!is_a_file(input) || !is_same_file(output->path, input.path)) continue;
      throw ConfigError(fmt::format("{} '{}' is {} too, which would be lost", output->flag,
                                    output->path.string(), input.flag),
                        "Choose another file to write to.");
    }
    for (auto other = outputs.begin(); other != output; ++other) {
      if (!is_a_file(*other) || !is_same_file(output->path, other->path)) continue;
      throw ConfigError(
          fmt::format("{} and {} both write '{}'", other->flag, output->flag, output->path.string()),
          "Give each a file of its own.");
    }
    check_writable(*output);
  }
}

std::string read_file(const fs::path& path) {
  const auto refuse = [&](const std::string& reason) {
    throw Error(fmt::format("cannot read '{}': {}", path.string(), reason));
  };
  // Without O_NONBLOCK a named pipe that nobody writes to would block here for ever.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) refuse(std::strerror(errno));
  const auto close_it = [](const int* open) { ::close(*open); };
  const std::unique_ptr<const int, decltype(close_it)> closed(&fd, close_it);
  struct ::stat facts {};
  if (::fstat(fd, &facts) != 0) refuse(std::strerror(errno));
  if (S_ISDIR(facts.st_mode)) refuse("it is a folder");
  if (S_ISCHR(facts.st_mode) || S_ISBLK(facts.st_mode)) refuse("it is a device");
  // A pipe with a writer is waited for.
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  std::string text;
  text.reserve(S_ISREG(facts.st_mode) ? std::min(static_cast<size_t>(facts.st_size) + 1, kMostBytes) : 0);
  std::array<char, 1 << 16> part{};
  while (true) {
    const ssize_t count = ::read(fd, part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) refuse(std::strerror(errno));
    if (count == 0) return text;
    if (text.size() + static_cast<size_t>(count) > kMostBytes) refuse("it holds more than 2 GiB");
    text.append(part.data(), static_cast<size_t>(count));
  }
}

FileEnds read_ends(const fs::path& path, size_t most) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const auto size = static_cast<size_t>(std::max<std::streamoff>(file.tellg(), 0));
  const size_t count = std::min(size, most);
  const auto read_at = [&](size_t place) {
    std::string text(count, '\0');
    file.seekg(static_cast<std::streamoff>(place));
    file.read(text.data(), static_cast<std::streamsize>(count));
    return text;
  };
  FileEnds ends{read_at(0), read_at(size - count)};
  if (!file) throw Error(fmt::format("cannot read '{}': {}", path.string(), std::strerror(errno)));
  return ends;
}

}  // namespace lockstep
