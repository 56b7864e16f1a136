#include "progress_line.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/units.h"
#include "lockstep/models/model.h"
#include "lockstep/train/step/pacing.h"

#include "console.h"

namespace lockstep::cli {
namespace {

/// Work in arbitrary units, proportional to the time that a row takes: ranks run in parallel, and the cost of
/// an image grows with its area and with the model's parameters. A network from a file counts by its
/// multiply-adds, at the 300 units per multiply-add that resnet50 has.
double work_of(const train::RowPlan& row) {
  const double images = train::expected_steps(row.pacing) * row.images_per_rank_step();
  if (row.image_size == 0) return images * static_cast<double>(row.multiply_adds) * 300;
  return images * row.image_size * row.image_size *
         static_cast<double>(models::info_of(row.model).parameters);
}

}  // namespace

ProgressLine::ProgressLine(const std::vector<train::RowPlan>& rows, const launch::Progress& progress)
    : rows_(rows), progress_(progress) {
  if (stderr_is_terminal() && !is_quiet()) thread_ = std::thread([this] { run(); });
}

ProgressLine::~ProgressLine() {
  {
    const std::lock_guard lock(mutex_);
    running_ = false;
  }
  wake_.notify_all();
  if (!thread_.joinable()) return;
  thread_.join();
  draw_progress("");
}

void ProgressLine::row_begins(size_t index) {
  const std::lock_guard lock(mutex_);
  active_ = true;
  row_ = index;
  row_began_s_ = seen_at_s_ = now_s();
  seen_steps_ = 0;
  if (!thread_.joinable()) {
    print_note(fmt::format("[{}/{}] {} ...", index + 1, rows_.size(), rows_[index].label()));
  }
}

void ProgressLine::row_ends(size_t index, double images_per_s) {
  const std::lock_guard lock(mutex_);
  active_ = false;
  const double took_s = now_s() - row_began_s_;
  finished_work_ += work_of(rows_[index]);
  finished_s_ += took_s;
  print_note(fmt::format("[{}/{}] {}: {:.2f} {}, took {}", index + 1, rows_.size(), rows_[index].label(),
                         images_per_s, rows_[index].rate_unit(), format_duration(took_s)));
}

void ProgressLine::run() {
  std::unique_lock lock(mutex_);
  while (running_) {
    if (active_) draw_progress(line(now_s()));
    // Four times a second; the destructor wakes it earlier.
    wake_.wait_for(lock, std::chrono::milliseconds(250));
  }
}

std::string ProgressLine::line(double at_s) {
  const train::RowPlan& row = rows_[row_];
  const launch::Progress::Snapshot progress = progress_.snapshot();
  const auto done = static_cast<int>(progress.step);
  if (progress.step != seen_steps_) seen_at_s_ = at_s;
  seen_steps_ = progress.step;
  // The time since the last finished step counts down.
  const auto left = [&](double elapsed_s, double fraction) {
    return format_duration(
        std::max(0.0, std::floor(seconds_left(elapsed_s, fraction) - (at_s - seen_at_s_))));
  };
  const double elapsed_s = seen_at_s_ - row_began_s_;
  std::string text = fmt::format("[{}/{}] {}: ", row_ + 1, rows_.size(), row.label());
  if (done == 0) {
    text += "preparing";
  } else {
    const double images_per_s =
        done * static_cast<double>(row.images_per_rank_step() * row.units_per_sample) * row.ranks / elapsed_s;
    if (progress.label != row.label()) {
      text += fmt::format("{}, step {}", progress.label.substr(0, progress.label.find(" of ")), done);
    } else if (row.pacing.fixed()) {
      const int total = train::expected_steps(row.pacing);
      text += fmt::format("{} {}/{}, {:.1f} {}, {} left",
                          done <= *row.pacing.warmup_steps ? "warm-up" : "step", std::min(done, total), total,
                          images_per_s, row.rate_unit(), left(elapsed_s, done / double(total)));
    } else {
      const double fraction =
          std::max(done / double(train::expected_steps(row.pacing)), elapsed_s / row.pacing.time_limit_s());
      text += fmt::format("step {}, {:.1f} {}, about {} left", done, images_per_s, row.rate_unit(),
                          left(elapsed_s, fraction));
    }
  }
  return text;
}

double ProgressLine::seconds_left(double row_elapsed_s, double fraction) const {
  // Assumes that later rows take as long per unit of work as the rows so far, this part of a row included.
  fraction = std::min(fraction, 1.0);
  const double row_work = work_of(rows_[row_]);
  double later_work = 0;
  for (size_t i = row_ + 1; i < rows_.size(); ++i) later_work += work_of(rows_[i]);
  const double s_per_work = (finished_s_ + row_elapsed_s) / (finished_work_ + fraction * row_work);
  return s_per_work * ((1 - fraction) * row_work + later_work);
}

}  // namespace lockstep::cli
