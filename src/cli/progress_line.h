#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "lockstep/launch/progress.h"
#include "lockstep/train/rows/sweep.h"

namespace lockstep::cli {

/// Shows the progress of a sweep on stderr: on a terminal one line that is redrawn, otherwise a line per row.
/// Reads the training thread's progress from a thread of its own, so the timed path never waits for the
/// terminal.
class ProgressLine {
 public:
  ProgressLine(const std::vector<train::RowPlan>& rows, const launch::Progress& progress);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void row_begins(size_t index);
  /// `images_per_s` of the whole job; 0 when the row failed.
  void row_ends(size_t index, double images_per_s);

  /// The line on the terminal at a time of base/clock.h, with the steps that are finished now.
  std::string line(double at_s);

 private:
  void run();
  double seconds_left(double row_elapsed_s, double fraction) const;

  const std::vector<train::RowPlan>& rows_;
  const launch::Progress& progress_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool running_ = true;
  bool active_ = false;
  size_t row_ = 0;
  double row_began_s_ = 0;
  /// The last finished step of the row, as far as this saw it, and when that was. Rates and the time that is
  /// left follow from finished steps, or both would get worse until the next one ends.
  int64_t seen_steps_ = 0;
  double seen_at_s_ = 0;
  /// Work of the finished rows and the seconds they took, to estimate the time that is left.
  double finished_work_ = 0;
  double finished_s_ = 0;
  std::thread thread_;
};

}  // namespace lockstep::cli
