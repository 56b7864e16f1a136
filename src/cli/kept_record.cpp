#include "kept_record.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include <unistd.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/results/files/record_json.h"
#include "lockstep/train/rows/row_result.h"

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

using CpuSeconds = std::chrono::duration<double>;

/// Pauses between two writings, of which a thousandth at most is spent on writing. The first is short, so
/// that a run that is killed within its first second keeps something, too.
constexpr CpuSeconds kFirstPause{0.1};
constexpr CpuSeconds kUsualPause{1};
constexpr double kPausePerWriting = 1000;

/// Processor time of this thread.
CpuSeconds thread_time() {
  return CpuSeconds(processor_clock_s(CLOCK_THREAD_CPUTIME_ID));
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

LiveRecord::~LiveRecord() {
  stop();
}

void LiveRecord::set_kept(KeptRecord kept) {
  const std::lock_guard lock(mutex_);
  kept_ = std::move(kept);
}

std::optional<KeptRecord> LiveRecord::kept() const {
  const std::lock_guard lock(mutex_);
  return kept_;
}

void LiveRecord::start(launch::StepBoard board, results::RunRecord record) {
  const std::lock_guard lock(mutex_);
  board_ = std::move(board);
  record_ = std::make_shared<const results::RunRecord>(std::move(record));
  running_ = true;
  thread_ = std::thread([this] { run(); });
}

void LiveRecord::row_begins(train::RowPlan row) {
  const std::lock_guard lock(mutex_);
  row_ = std::move(row);
}

void LiveRecord::keep(results::RunRecord record) {
  const std::lock_guard writing(writing_);
  written_steps_ = 0;
  {
    const std::lock_guard lock(mutex_);
    row_.reset();
    record_ = std::make_shared<const results::RunRecord>(std::move(record));
  }
  kept_->write(*record_);
}

void LiveRecord::write_now() noexcept {
  try {
    write_row();
  } catch (const std::exception&) {
    return;
  }
}

void LiveRecord::stop() {
  {
    const std::lock_guard lock(mutex_);
    running_ = false;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void LiveRecord::run() {
  CpuSeconds pause = kFirstPause;
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, pause, [this] { return !running_; })) {
    lock.unlock();
    const CpuSeconds begin = thread_time();
    write_now();
    pause = std::max(std::min(2 * pause, kUsualPause), kPausePerWriting * (thread_time() - begin));
    lock.lock();
  }
}

void LiveRecord::write_row() {
  const std::lock_guard writing(writing_);
  std::shared_ptr<const results::RunRecord> measured;
  std::optional<train::RowPlan> row;
  std::vector<std::vector<double>> step_s;
  {
    const std::lock_guard lock(mutex_);
    if (!running_ || !row_) return;
    measured = record_;
    row = row_;
    // Read under the lock: once the row has ended the ranks write the next one's steps.
    step_s = board_.read(row->ranks);
  }
  std::optional<results::Run> run = train::unfinished_run(*row, std::move(step_s), results::kNotEnded);
  if (!run) return;
  const size_t steps = run->samples.size() + run->warmup_samples.size();
  if (steps == written_steps_) return;
  results::RunRecord record = *measured;
  record.runs.push_back(std::move(*run));
  kept_->write(record);
  written_steps_ = steps;
}

}  // namespace lockstep::cli
