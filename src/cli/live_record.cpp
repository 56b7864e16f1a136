#include "live_record.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <exception>
#include <utility>

#include "lockstep/train/rows/row_result.h"

namespace lockstep::cli {
namespace {

using CpuSeconds = std::chrono::duration<double>;

/// A run that is killed within its first second keeps something, too.
constexpr CpuSeconds kSoonest{0.1};
constexpr CpuSeconds kUsual{1};
/// Processor time between two writings, times that of a writing.
constexpr double kRarity = 1000;

/// Processor time of this thread.
CpuSeconds thread_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return CpuSeconds(static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec));
}

}  // namespace

LiveRecord::~LiveRecord() {
  stop();
}

void LiveRecord::set_place(std::filesystem::path place) {
  const std::lock_guard lock(mutex_);
  place_ = std::move(place);
}

std::filesystem::path LiveRecord::place() const {
  const std::lock_guard lock(mutex_);
  return place_;
}

void LiveRecord::start(results::PartialFile file, launch::StepBoard board, results::RunRecord record) {
  const std::lock_guard lock(mutex_);
  place_ = file.place();
  file_ = std::move(file);
  board_ = std::move(board);
  finished_ = std::make_shared<const results::RunRecord>(std::move(record));
  // Earlier launches are on disk already; this one has measured nothing yet.
  written_ = {finished_, {}};
  running_ = true;
  if (!place_.empty()) thread_ = std::thread([this] { run(); });
}

void LiveRecord::row_begins(train::RowPlan row) {
  const std::lock_guard lock(mutex_);
  row_ = std::move(row);
  trained_.reset();
}

void LiveRecord::row_is_trained(results::Run run) {
  const std::lock_guard lock(mutex_);
  row_.reset();
  trained_ = std::move(run);
}

void LiveRecord::row_ends(results::RunRecord record) {
  {
    const std::lock_guard lock(mutex_);
    row_.reset();
    trained_.reset();
    finished_ = std::make_shared<const results::RunRecord>(std::move(record));
  }
  write();
}

void LiveRecord::write_now() noexcept {
  try {
    write();
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
  CpuSeconds pause = kSoonest;
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, pause, [this] { return !running_; })) {
    lock.unlock();
    const CpuSeconds begin = thread_time();
    // A disk that is full may have room again; if not, the end of the row says so.
    write_now();
    pause = std::max(std::min(2 * pause, kUsual), kRarity * (thread_time() - begin));
    lock.lock();
  }
}

void LiveRecord::write() {
  const std::lock_guard writing(writing_);
  Contents now = contents();
  if (now.measured_as_much_as(written_)) return;
  results::RunRecord record = *now.finished;
  if (now.run) record.runs.push_back(*now.run);
  // Set once, in start(), before there was anything to write.
  file_->update(record);
  written_ = std::move(now);
}

bool LiveRecord::Contents::measured_as_much_as(const Contents& other) const {
  const auto steps = [](const std::optional<results::Run>& measured) {
    return measured ? measured->samples.size() + measured->warmup_samples.size() : 0;
  };
  return finished == other.finished && run.has_value() == other.run.has_value() &&
         steps(run) == steps(other.run) && (!run || run->finished() == other.run->finished());
}

LiveRecord::Contents LiveRecord::contents() const {
  Contents now;
  std::optional<train::RowPlan> row;
  std::vector<std::vector<double>> step_s;
  {
    const std::lock_guard lock(mutex_);
    // As if all of it were written.
    if (!running_) return written_;
    now.finished = finished_;
    now.run = trained_;
    row = row_;
    // Read under the lock: once the row has ended the ranks write the next one's steps.
    if (row) step_s = board_.read(row->ranks);
  }
  if (row) now.run = train::unfinished_run(*row, std::move(step_s), results::kNotEnded);
  return now;
}

}  // namespace lockstep::cli
