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
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace fs = std::filesystem;
namespace {

constexpr size_t kMostBytes = size_t{2} << 30;

/// As many as Linux follows.
constexpr int kMostLinks = 40;

struct Target {
  /// The file behind symbolic links, whether it exists or not.
  fs::path path;
  /// Why nothing is written through them; empty: it is.
  std::string objection = {};
};

/// Whether this user or root made the link. Others could plant one that leads to any file of this user's.
bool is_trusted_link(const fs::path& link) {
  struct ::stat made {};
  return ::lstat(link.c_str(), &made) == 0 && (made.st_uid == ::geteuid() || made.st_uid == 0);
}

Target target_of(const fs::path& path) {
  Target target{path};
  std::error_code failed;
  for (fs::path above = fs::absolute(path, failed).parent_path(); above.has_relative_path();
       above = above.parent_path()) {
    if (fs::is_symlink(above, failed) && !is_trusted_link(above))
      target.objection = fmt::format("'{}' is a link that another user made", above.string());
  }
  for (int links = 0; links < kMostLinks && fs::is_symlink(target.path, failed); ++links) {
    if (target.objection.empty() && !is_trusted_link(target.path))
      target.objection = fmt::format("'{}' is a link that another user made", target.path.string());
    target.path = target.path.parent_path() / fs::read_symlink(target.path, failed);
  }
  return target;
}

/// A new file in the same folder, so that the rename stays within one file system.
struct Temporary {
  std::string path;
  int fd = -1;
  /// The file gets its path once it is complete, so that a kill leaves nothing.
  bool is_nameless = false;
};

Temporary create_beside(const fs::path& path) {
  std::random_device random;
  Temporary made;
  made.fd = ::access("/proc/self/fd", X_OK) != 0
                ? -1
                : ::open((path.parent_path() / ".").c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
  made.is_nameless = made.fd >= 0;
  // As mkstemp, which would not apply the umask. O_EXCL does not follow a link planted by another user.
  do {
    made.path =
        (path.parent_path() / fmt::format(".{}.{:08x}.tmp", path.filename().string(), random())).string();
    if (!made.is_nameless) made.fd = ::open(made.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (made.fd < 0 && errno == EEXIST);
  struct ::stat old {};
  if (made.fd >= 0 && ::stat(path.c_str(), &old) == 0 && old.st_uid == ::geteuid())
    ::fchmod(made.fd, old.st_mode & 07777);
  return made;
}

/// 0 on success, else errno. Takes the result of open().
int write_all(int fd, const std::vector<std::string_view>& parts) {
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
  return error;
}

/// The same, and closes it.
int write_and_close(int fd, const std::vector<std::string_view>& parts) {
  const int error = write_all(fd, parts);
  if (fd >= 0 && ::close(fd) != 0 && error == 0) return errno;
  return error;
}

/// Names a complete file and puts it in the place of `target`: two calls, which a kill of this process must
/// not separate. A child that leaves its group makes them; a rank is killed there when its launcher dies. 0
/// on success, else errno.
int replace(const fs::path& target, const Temporary& file) {
  const std::string nameless = fmt::format("/proc/self/fd/{}", file.fd);
  const auto name_it = [&] {
    const bool named = !file.is_nameless || ::linkat(AT_FDCWD, nameless.c_str(), AT_FDCWD, file.path.c_str(),
                                                     AT_SYMLINK_FOLLOW) == 0;
    return named && ::rename(file.path.c_str(), target.c_str()) == 0 ? 0 : errno;
  };
  const pid_t child = ::vfork();
  if (child == 0) {
    ::setpgid(0, 0);
    ::_exit(name_it());
  }
  int status = 0;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return child > 0 ? WEXITSTATUS(status) : name_it();
}

/// Opens a device or pipe. A pipe without a reader, whose writer would wait forever, is an error (ENXIO).
int open_directly(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd >= 0) ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  return fd;
}

[[noreturn]] void throw_unwritten(const fs::path& path, const std::string& reason) {
  throw Error(fmt::format("cannot write '{}': {}", path.string(), reason));
}

}  // namespace

bool is_device_or_pipe(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored) && !fs::is_regular_file(path, ignored);
}

std::string identity_of(const fs::path& path) {
  const fs::path target = target_of(path).path;
  struct ::stat folder {};
  if (::stat((target.parent_path() / ".").c_str(), &folder) != 0)
    return fs::absolute(target).lexically_normal();
  return fmt::format("{}:{}/{}", folder.st_dev, folder.st_ino, target.filename().string());
}

void write_file_atomically(const fs::path& path, std::string_view text) {
  write_file_atomically(path, std::vector{text});
}

void write_file_atomically(const fs::path& path, const std::vector<std::string_view>& parts,
                           const fs::path& keep_old_as) {
  int error = 0;
  if (is_device_or_pipe(path)) {
    error = write_and_close(open_directly(path), parts);
    if (error == ENXIO && fs::is_fifo(path)) throw_unwritten(path, "nobody reads this pipe");
  } else {
    const Target target = target_of(path);
    if (!target.objection.empty()) throw_unwritten(path, target.objection);
    const Temporary temporary = create_beside(target.path);
    error = write_all(temporary.fd, parts);
    if (error == 0 && !keep_old_as.empty()) {
      // A second name first, so that the file is there at any moment.
      ::unlink(keep_old_as.c_str());
      if (::link(target.path.c_str(), keep_old_as.c_str()) != 0)
        ::rename(target.path.c_str(), keep_old_as.c_str());
    }
    if (error == 0) error = replace(target.path, temporary);
    if (error != 0 && temporary.fd >= 0) ::unlink(temporary.path.c_str());
    if (temporary.fd >= 0) ::close(temporary.fd);
  }
  if (error != 0) throw_unwritten(path, std::strerror(error));
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
  const Target target = target_of(output.path);
  if (!target.objection.empty()) refuse(target.objection);
  const Temporary temporary = create_beside(target.path);
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
  return !is_device_or_pipe(a) && (fs::equivalent(a, b, failed) || identity_of(a) == identity_of(b));
}

bool is_inside(const fs::path& path, const fs::path& folder) {
  std::error_code failed;
  fs::path above = fs::weakly_canonical(path, failed);
  while (!failed && above.has_relative_path()) {
    above = above.parent_path();
    if (fs::equivalent(above, folder, failed)) return true;
  }
  return false;
}

fs::path temporary_folder() {
  const char* chosen = std::getenv("TMPDIR");
  return chosen == nullptr || *chosen == '\0' ? "/tmp" : chosen;
}

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string why_not_mine_alone(const fs::path& folder) {
  std::error_code failed;
  const fs::path real = fs::canonical(folder, failed);
  if (failed) return fmt::format("'{}': {}", folder.string(), failed.message());
  struct ::stat root {
  }, each{};
  ::stat("/", &root);
  for (fs::path path = real;; path = path.parent_path()) {
    if (::lstat(path.c_str(), &each) != 0)
      return fmt::format("'{}': {}", path.string(), std::strerror(errno));
    const bool above = path != real;
    // Root of a container may have another number.
    if (each.st_uid != ::geteuid() && !(above && (each.st_uid == 0 || each.st_uid == root.st_uid)))
      return fmt::format("'{}' is another user's", path.string());
    // Systems make a group of the same number for each user; in a list of access rights may stand others.
    const bool own_group = each.st_gid == ::geteuid() && each.st_gid == ::getegid() &&
                           ::getxattr(path.c_str(), "system.posix_acl_access", nullptr, 0) < 0;
    const bool open = (each.st_mode & (own_group ? S_IWOTH : S_IWOTH | S_IWGRP)) != 0;
    if (open && !(above && (each.st_mode & S_ISVTX) != 0))
      return fmt::format("other users may write to '{}'", path.string());
    if (!path.has_relative_path()) return "";
  }
}

fs::path make_private_folder(const std::string& name, const fs::path& parent) {
  std::string made = (parent / (name + "-XXXXXX")).string();
  std::string reason;
  if (::mkdtemp(made.data()) == nullptr) {
    reason = std::strerror(errno);
  } else {
    reason = why_not_mine_alone(made);
    if (reason.empty()) return made;
    ::rmdir(made.c_str());
  }
  throw ConfigError(fmt::format("'{}' cannot hold temporary files: {}", parent.string(), reason),
                    "Set TMPDIR to a folder that only you may write to, or that has the sticky bit.");
}

void check_outputs(const std::vector<GivenFile>& outputs, const std::vector<GivenFile>& inputs) {
  for (auto output = outputs.begin(); output != outputs.end(); ++output) {
    for (auto other = outputs.begin(); other != output; ++other) {
      const bool both_stdout = output->path == "-" && other->path == "-";
      const bool both_files = is_a_file(*output) && is_a_file(*other);
      if (!both_stdout && !(both_files && is_same_file(output->path, other->path))) continue;
      throw ConfigError(
          fmt::format("{} and {} both write '{}'", other->flag, output->flag, output->path.string()),
          "Give each a file of its own.");
    }
    if (!is_a_file(*output)) continue;
    for (const GivenFile& input : inputs) {
      if (!is_a_file(input) || !is_same_file(output->path, input.path)) continue;
      throw ConfigError(fmt::format("{} '{}' is {} too, which would be lost", output->flag,
                                    output->path.string(), input.flag),
                        "Choose another file to write to.");
    }
    check_writable(*output);
  }
}

std::string read_file(const fs::path& path) {
  const auto refuse = [&](const std::string& reason) {
    throw Error(fmt::format("cannot read '{}': {}", path.string(), reason));
  };
  // Without O_NONBLOCK, opening a named pipe without a writer would block forever.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) refuse(std::strerror(errno));
  const auto close_it = [](const int* open) { ::close(*open); };
  const std::unique_ptr<const int, decltype(close_it)> closed(&fd, close_it);
  struct ::stat facts {};
  if (::fstat(fd, &facts) != 0) refuse(std::strerror(errno));
  if (S_ISDIR(facts.st_mode)) refuse("it is a folder");
  if (S_ISCHR(facts.st_mode) || S_ISBLK(facts.st_mode)) refuse("it is a device");
  // From here on, wait for the writer of a pipe.
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

NamedText read_given(const fs::path& path) {
  if (path == "-") return {"standard input", read_file("/dev/stdin")};
  return {path.string(), read_file(path)};
}

void require_regular_file(const fs::path& path) {
  std::error_code failed;
  if (fs::is_regular_file(path, failed)) return;
  throw Error(fmt::format("cannot read '{}': {}", path.string(),
                          failed ? failed.message() : "it is not a regular file"),
              "Give a regular file.");
}

FileEnds read_ends(const fs::path& path, size_t most) {
  require_regular_file(path);
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
