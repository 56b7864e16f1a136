#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/launch/shared_memory.h"
#include "lockstep/results/record/run_record.h"

namespace lockstep::cli {

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

  /// Whether this process can read all that was written: not on another host.
  bool within_reach() const { return bool(memory_->fd); }

 private:
  KeptRecord(launch::SharedMemory memory, std::filesystem::path file);
  void write_memory(std::string_view text) const;

  std::shared_ptr<const launch::SharedMemory> memory_;
  std::filesystem::path file_;
};

}  // namespace lockstep::cli
