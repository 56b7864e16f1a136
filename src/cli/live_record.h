#pragma once

#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "lockstep/launch/step_board.h"
#include "lockstep/results/files/partial_file.h"
#include "lockstep/results/record/run_record.h"
#include "lockstep/train/rows/sweep.h"

namespace lockstep::cli {

/// The record of a bench on disk while rows are measured, on rank 0: the measured rows, and the steps that
/// the ranks have made in the row that goes on (launch::StepBoard), marked unfinished. A thread of its own
/// rewrites it about once a second, but takes at most a thousandth of a core's time. So whatever ends the
/// processes, the steps until shortly before are kept. Thread-safe.
class LiveRecord {
 public:
  LiveRecord() = default;
  ~LiveRecord();
  LiveRecord(const LiveRecord&) = delete;
  LiveRecord& operator=(const LiveRecord&) = delete;

  /// For ranks other than 0: the place of rank 0's record.
  void set_place(std::filesystem::path place);
  /// The place of the record; empty: there is none, or it is not known yet.
  std::filesystem::path place() const;

  /// On rank 0, once: keeps all further measurements in `file`, beginning with `record`, which is on disk
  /// already or has measured nothing yet.
  void start(results::PartialFile file, launch::StepBoard board, results::RunRecord record);

  /// `row` is trained from now on, as its record will say.
  void row_begins(train::RowPlan row);
  /// The row that began is in `record`. Writes it at once. Throws Error when the disk is full.
  void keep(results::RunRecord record);

  /// Writes the row that goes on at once, if there is one: the process is about to end. Errors of the disk
  /// are left to the reader of the file.
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
  std::filesystem::path place_;
  std::optional<results::PartialFile> file_;
  launch::StepBoard board_;
  /// Replaced, never changed.
  std::shared_ptr<const results::RunRecord> record_;
  /// The row that is trained.
  std::optional<train::RowPlan> row_;
  std::thread thread_;
};

}  // namespace lockstep::cli
