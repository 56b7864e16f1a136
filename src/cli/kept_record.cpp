#include "kept_record.h"

#include <sstream>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/secret.h"
#include "lockstep/results/files/record_json.h"

#include "output_files.h"

namespace lockstep::cli {
namespace {

/// The beginning of the memory; the text lies somewhere behind it.
struct Head {
  uint64_t begin = sizeof(Head);
  /// 0: no record was written to memory, or a later one to the file.
  uint64_t bytes = 0;
};

Head head_of(int memory) {
  Head head;
  return ::pread(memory, &head, sizeof head, 0) == sizeof head ? head : Head();
}

}  // namespace

KeptRecord::KeptRecord(int memory, std::string address, std::filesystem::path file)
    : memory_(std::make_shared<UniqueFd>(memory)),
      address_(std::move(address)),
      file_(std::move(file)) {}

KeptRecord KeptRecord::make(const std::filesystem::path& file) {
  // Distinguishes it from what another process may have at that path on another host, or in a container.
  const std::string name = "lockstep-record-" + random_secret();
  const int memory = ::memfd_create(name.c_str(), MFD_CLOEXEC);
  return {memory, fmt::format("/proc/{}/fd/{}\n{}\n{}", ::getpid(), memory, name, file.string()), file};
}

KeptRecord KeptRecord::open(const std::string& address) {
  std::istringstream lines(address);
  std::string path, name, file;
  std::getline(std::getline(std::getline(lines, path), name), file, '\0');
  std::error_code failed;
  const bool there = std::filesystem::read_symlink(path, failed).string().find(name) != std::string::npos;
  return {there ? ::open(path.c_str(), O_RDWR | O_CLOEXEC) : -1, address, file};
}

void KeptRecord::write(const results::RunRecord& record) const {
  results::RunRecord marked = record;
  if (marked.incomplete.empty()) marked.incomplete = results::kNotEnded;
  const std::string text = results::to_json(marked);
  if (!file_.empty()) {
    try {
      write_file_atomically(file_, text);
      write_memory("");
      return;
    } catch (const Error&) {
      // The disk may have room again later; if not, the end of the run reports it.
    }
  }
  write_memory(text);
}

void KeptRecord::write_memory(std::string_view text) const {
  const int memory = memory_->get();
  const Head old = head_of(memory);
  // Beside the old text, so that the head leads to a whole one at any moment.
  Head head{.bytes = text.size()};
  if (old.begin < head.begin + text.size()) head.begin = old.begin + old.bytes;
  const ssize_t written = ::pwrite(memory, text.data(), text.size(), static_cast<off_t>(head.begin));
  if (written == static_cast<ssize_t>(text.size())) ::pwrite(memory, &head, sizeof head, 0);
}

std::optional<results::RunRecord> KeptRecord::read() const {
  const Head head = head_of(memory_->get());
  std::string text(head.bytes, '\0');
  if (::pread(memory_->get(), text.data(), head.bytes, static_cast<off_t>(head.begin)) > 0)
    return results::from_json(text, "the record of this run");
  if (file_.empty() || !holds_something(file_)) return std::nullopt;
  return results::read_record(file_);
}

}  // namespace lockstep::cli
