#include "kept_record.h"

#include <utility>

#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
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

KeptText::KeptText(SharedMemory memory) : memory_(std::make_shared<SharedMemory>(std::move(memory))) {}

KeptText KeptText::make() {
  return KeptText(SharedMemory::make("record"));
}

KeptText KeptText::open(const std::string& address) {
  return KeptText({open_shared_memory(address), address});
}

void KeptText::write(std::string_view text) const {
  const int memory = memory_->fd.get();
  const Head old = head_of(memory);
  // Beside the old text, so that the head leads to a whole one at any moment.
  Head head{.bytes = text.size()};
  if (old.begin < head.begin + text.size()) head.begin = old.begin + old.bytes;
  const ssize_t written = ::pwrite(memory, text.data(), text.size(), static_cast<off_t>(head.begin));
  if (written == static_cast<ssize_t>(text.size())) ::pwrite(memory, &head, sizeof head, 0);
}

std::string KeptText::read() const {
  const Head head = head_of(memory_->fd.get());
  std::string text(head.bytes, '\0');
  if (::pread(memory_->fd.get(), text.data(), head.bytes, static_cast<off_t>(head.begin)) <= 0) text.clear();
  return text;
}

KeptRecord KeptRecord::make(const std::filesystem::path& file) {
  return {KeptText::make(), file};
}

KeptRecord KeptRecord::open(const std::string& address) {
  const size_t line = address.find('\n');
  return {KeptText::open(address.substr(0, line)), line < address.size() ? address.substr(line + 1) : ""};
}

std::string KeptRecord::address() const {
  return memory_.address() + "\n" + file_.string();
}

void KeptRecord::write(const results::RunRecord& record) const {
  results::RunRecord marked = record;
  if (marked.incomplete.empty()) marked.incomplete = results::kNotEnded;
  const std::string text = results::to_json(marked);
  if (!file_.empty()) {
    try {
      write_file_atomically(file_, text);
      memory_.write("");
      return;
    } catch (const Error&) {
      // The disk may have room again later; if not, the end of the run reports it.
    }
  }
  memory_.write(text);
}

std::optional<results::RunRecord> KeptRecord::read() const {
  if (const std::string text = memory_.read(); !text.empty())
    return results::from_json(text, "the record of this run");
  if (file_.empty() || !holds_something(file_)) return std::nullopt;
  results::RunRecord record = results::read_record(file_);
  // A file of this name on another host may be an earlier run's.
  if (record.incomplete.empty()) return std::nullopt;
  return record;
}

}  // namespace lockstep::cli
