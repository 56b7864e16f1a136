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

/// The record of a bench on disk while rows are measured, on rank 0: the finished rows, and the steps that
/// the ranks have made in the row that goes on (launch::StepBoard), marked unfinished. A thread of its own
/// rewrites it about once a second, and the more rarely the longer that takes: at most a thousandth of a
/// core's time. So whatever ends the processes, the steps until shortly before are kept. Thread-safe.
class LiveRecord {
 public:
  LiveRecord() = default;
  ~LiveRecord();
  LiveRecord(const LiveRecord&) = delete;
  LiveRecord& operator=(const LiveRecord&) = delete;

  /// For ranks other than 0: the place that rank 0 keeps the record in.
  void set_place(std::filesystem::path place);
  /// The place of the record; empty: none is kept, or it is not known yet.
  std::filesystem::path place() const;

  /// Rank 0's: what is measured from now on is kept in `file`, beginning with `record`. Once.
  void start(results::PartialFile file, launch::StepBoard board, results::RunRecord record);

  /// `row` is trained from now on, as its record will say.
  void row_begins(train::RowPlan row);
  /// All of the row but what comes after its throughput (the breakdown) is measured.
  void row_is_trained(results::Run run);
  /// The row is over: `record` has it. Writes it at once. Throws Error when the disk is full.
  void row_ends(results::RunRecord record);

  /// Writes what there is at once, if start() was called: the process is about to end. The disk's errors are
  /// left to whoever reads the file.
  void write_now() noexcept;

  /// All is measured: nothing is written any more.
  void stop();

 private:
  void run();
  /// Writes the record with the row that goes on, unless that was not measured further since the last time.
  void write();
  /// The contents of the record, to tell whether it has to be written again.
  struct Contents {
    std::shared_ptr<const results::RunRecord> finished;
    std::optional<results::Run> run;

    bool measured_as_much_as(const Contents& other) const;
  };
  /// The contents that it would be written with now.
  Contents contents() const;

  /// Held while the file is written, so that an older record never replaces a newer one. Taken before mutex_.
  std::mutex writing_;
  /// Guarded by writing_.
  Contents written_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool running_ = false;
  std::filesystem::path place_;
  std::optional<results::PartialFile> file_;
  launch::StepBoard board_;
  /// Replaced, never changed.
  std::shared_ptr<const results::RunRecord> finished_;
  /// The row that is trained, and its run once that is over.
  std::optional<train::RowPlan> row_;
  std::optional<results::Run> trained_;
  std::thread thread_;
};

}  // namespace lockstep::cli
