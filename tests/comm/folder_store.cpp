#include "comm/folder_store.h"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <optional>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/units.h"
#include "lockstep/comm/operation.h"

namespace lockstep::comm {
namespace {

std::optional<std::string> read_if_there(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  return read_file(path);
}

}  // namespace

std::filesystem::path FolderStore::path_of(const std::string& key) const {
  std::string name = key;
  std::ranges::replace(name, '/', '_');
  return folder_ / name;
}

void FolderStore::set(const std::string& key, const std::string& value) {
  // Renamed, so that a reader finds the whole value or none; not flushed to disk, which nobody here needs.
  static std::atomic<int> count{0};
  const std::filesystem::path temporary = folder_ / fmt::format("t-{}-{}", ::getpid(), count++);
  std::ofstream(temporary, std::ios::binary) << value;
  std::filesystem::rename(temporary, path_of(key));
}

std::string FolderStore::get(const std::string& key, std::chrono::duration<double> timeout) {
  const std::filesystem::path path = path_of(key);
  const Deadline deadline = deadline_after(timeout);
  auto pause = std::chrono::milliseconds(1);
  while (true) {
    if (auto value = read_if_there(path)) return *value;
    if (Clock::now() >= deadline) {
      throw TimeoutError(
          fmt::format("{} did not appear within {}", path.string(), format_duration(timeout.count())),
          "check that every rank was started");
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::milliseconds(20));
  }
}

int64_t FolderStore::add(const std::string& key, int64_t amount) {
  // A file beside the value: the value itself is replaced, and a lock would stay on the old one.
  const int lock = ::open((path_of(key).string() + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock < 0 || ::flock(lock, LOCK_EX) != 0) throw Error("cannot lock " + path_of(key).string());
  const int64_t sum = std::stoll(read_if_there(path_of(key)).value_or("0")) + amount;
  set(key, std::to_string(sum));
  ::close(lock);
  return sum;
}

}  // namespace lockstep::comm
