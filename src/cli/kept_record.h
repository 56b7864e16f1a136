#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/base/shared_memory.h"
#include "lockstep/results/record/run_record.h"

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

}  // namespace lockstep::cli
