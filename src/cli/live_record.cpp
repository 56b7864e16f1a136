#include "live_record.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "lockstep/base/clock.h"
#include "lockstep/train/rows/row_result.h"

namespace lockstep::cli {
namespace {

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
