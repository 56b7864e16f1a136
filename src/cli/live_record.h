#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "lockstep/launch/step_board.h"
#include "lockstep/results/record/run_record.h"
#include "lockstep/train/rows/sweep.h"

#include "kept_record.h"

namespace lockstep::cli {

/// Writes the KeptRecord of a bench while rows are measured, on rank 0: the measured rows, and the steps that
/// the ranks have made in the row that goes on (launch::StepBoard), marked unfinished. A thread of its own
/// rewrites it about once a second, but takes at most a thousandth of a core's time. So whatever ends the
/// processes, the steps until shortly before are kept. Thread-safe.
class LiveRecord {
 public:
  LiveRecord() = default;
  ~LiveRecord();
  LiveRecord(const LiveRecord&) = delete;
  LiveRecord& operator=(const LiveRecord&) = delete;

  /// The record of rank 0.
  void set_kept(KeptRecord kept);
  /// Empty: it is not known yet.
  std::optional<KeptRecord> kept() const;

  /// On rank 0, once: keeps all further measurements, beginning with `record`, which is kept already or has
  /// measured nothing yet.
  void start(launch::StepBoard board, results::RunRecord record);

  /// `row` is trained from now on, as its record will say.
  void row_begins(train::RowPlan row);
  /// The row that began is in `record`. Writes it at once.
  void keep(results::RunRecord record);

  /// Writes the row that goes on at once, if there is one: the process is about to end.
  void write_now() noexcept;

  /// Nothing is written from now on.
  void stop();

 private:
  void run();
  /// Writes the record with the row that goes on, if that has further steps since the last time.
  void write_row();

  /// Held while the file is written, so that an older record never replaces a newer one. Taken before mutex_.
  std::mutex writing_;
  /// Steps of the row that goes on in the file. Guarded by writing_.
  size_t written_steps_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool running_ = false;
  /// Set before start().
  std::optional<KeptRecord> kept_;
  launch::StepBoard board_;
  /// Replaced, never changed.
  std::shared_ptr<const results::RunRecord> record_;
  /// The row that is trained.
  std::optional<train::RowPlan> row_;
  std::thread thread_;
};

}  // namespace lockstep::cli
