#pragma once

#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "lockstep/base/shared_memory.h"
#include "lockstep/launch/step_board.h"
#include "lockstep/results/record/run_record.h"
#include "lockstep/train/rows/sweep.h"

namespace lockstep::cli {

/// A text in memory that this process and others of its host read, whichever of them ends. Copies are one
/// text. Not thread-safe.
class KeptText {
 public:
  static KeptText make();
  /// Another process's, by its address().
  static KeptText open(const std::string& address);

  const std::string& address() const { return memory_->address; }
  /// Replaces the text. A reader sees the old one or the whole new one, even if the writer is killed. Does
  /// nothing where the memory is out of reach.
  void write(std::string_view text) const;
  /// The text that was written last; empty: none was, or "".
  std::string read() const;
  /// Whether this process can read all that was written: not on another host.
  bool within_reach() const { return bool(memory_->fd); }

 private:
  explicit KeptText(SharedMemory memory);

  std::shared_ptr<const SharedMemory> memory_;
};

/// The record of a bench while rows are measured, so that the process that reports to the user finds it,
/// whichever process ends: in the file of --json, and where there is none, or it cannot be written, in
/// memory. Copies are one record. Not thread-safe.
class KeptRecord {
 public:
  /// A new one. `file`: a whole record at any time, which outlives all processes; empty: none.
  static KeptRecord make(const std::filesystem::path& file);
  /// Another process's, by its address().
  static KeptRecord open(const std::string& address);

  /// The memory's address in the first line, the file in the second.
  std::string address() const;
  const std::filesystem::path& file() const { return file_; }

  /// Replaces the record, marked as not ended unless record.incomplete has a reason. A reader sees the old
  /// one or the whole new one, even if the writer is killed.
  void write(const results::RunRecord& record) const;

  /// The record that was written last; empty: none was. Throws Error for a file that cannot be read.
  std::optional<results::RunRecord> read() const;

  /// See KeptText.
  bool within_reach() const { return memory_.within_reach(); }

 private:
  KeptRecord(KeptText memory, std::filesystem::path file)
      : memory_(std::move(memory)), file_(std::move(file)) {}

  KeptText memory_;
  std::filesystem::path file_;
};

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
