#include "lockstep/comm/store.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/host_name.h"
#include "lockstep/base/units.h"
#include "lockstep/comm/operation.h"

namespace lockstep::comm {
namespace {

std::string system_reason() {
  return std::generic_category().message(errno);
}

/// Excludes every other rank's add() on the same key while it lives. The system releases it if the rank dies.
class FileLock {
 public:
  explicit FileLock(const std::filesystem::path& path)
      : descriptor_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    int result = descriptor_ < 0 ? -1 : ::flock(descriptor_, LOCK_EX);
    while (result != 0 && descriptor_ >= 0 && errno == EINTR) result = ::flock(descriptor_, LOCK_EX);
    if (result != 0) {
      const std::string reason = system_reason();
      if (descriptor_ >= 0) ::close(descriptor_);
      throw Error(fmt::format("cannot lock {}: {}", path.string(), reason));
    }
  }
  ~FileLock() { ::close(descriptor_); }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int descriptor_;
};

std::optional<std::string> read_if_there(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

void HashStore::set(const std::string& key, const std::string& value) {
  std::lock_guard lock(mutex_);
  values_[key] = value;
  // All: several ranks may wait for this key, and others for other keys.
  changed_.notify_all();
}

std::string HashStore::get(const std::string& key, std::chrono::duration<double> timeout) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_until(lock, deadline_after(timeout), [&] { return values_.contains(key); })) {
    throw TimeoutError(fmt::format("'{}' was not set within {}", key, format_duration(timeout.count())),
                       "check that every rank was started");
  }
  return values_[key];
}

int64_t HashStore::add(const std::string& key, int64_t amount) {
  std::lock_guard lock(mutex_);
  std::string& value = values_[key];
  const int64_t sum = (value.empty() ? 0 : std::stoll(value)) + amount;
  value = std::to_string(sum);
  changed_.notify_all();
  return sum;
}

FolderStore::FolderStore(std::filesystem::path folder) : folder_(std::move(folder)) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (!std::filesystem::is_directory(folder_)) {
    throw ConfigError(
        fmt::format("cannot use {} as a rendezvous folder: {}", folder_.string(), error.message()),
        "name a folder that every rank can write to");
  }
}

std::filesystem::path FolderStore::path_of(const std::string& key) const {
  // Injective: every byte that is not plain becomes _xx. The prefix keeps keys apart from temporary files.
  std::string name = "k-";
  for (const unsigned char c : key) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
    name += plain ? std::string(1, char(c)) : fmt::format("_{:02x}", c);
  }
  return folder_ / name;
}

void FolderStore::set(const std::string& key, const std::string& value) {
  // Written under another name and renamed: a reader finds the whole value or none. The name is unique over
  // the hosts, processes and threads that share the folder.
  static std::atomic<int> count{0};
  const std::filesystem::path path = path_of(key);
  const std::filesystem::path temporary =
      folder_ / fmt::format("t-{}-{}-{}", host_name(), ::getpid(), count++);
  std::ofstream file(temporary, std::ios::binary);
  file << value;
  file.close();
  if (!file || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const std::string reason = system_reason();
    ::unlink(temporary.c_str());
    throw Error(fmt::format("cannot write {}: {}", path.string(), reason),
                "check that every rank can write to the rendezvous folder");
  }
}

std::string FolderStore::get(const std::string& key, std::chrono::duration<double> timeout) {
  const std::filesystem::path path = path_of(key);
  const Deadline deadline = deadline_after(timeout);
  auto pause = std::chrono::milliseconds(1);
  while (true) {
    // Polled, with growing pauses: inotify does not see what another host writes.
    if (auto value = read_if_there(path)) return *value;
    if (Clock::now() >= deadline) {
      throw TimeoutError(
          fmt::format("{} did not appear within {}", path.string(), format_duration(timeout.count())),
          "check that every rank was started and sees the same folder");
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::milliseconds(20));
  }
}

int64_t FolderStore::add(const std::string& key, int64_t amount) {
  std::filesystem::path lock_path = path_of(key);
  lock_path += ".lock";
  // A file beside the value: the value itself is replaced by rename, and a lock would stay on the old one.
  const FileLock lock(lock_path);
  const int64_t sum = std::stoll(read_if_there(path_of(key)).value_or("0")) + amount;
  set(key, std::to_string(sum));
  return sum;
}

}  // namespace lockstep::comm
