#pragma once

#include <cstdint>

#include "lockstep/base/fields.h"

namespace lockstep::topology {

/// Resident memory of this process, after what its allocator kept free went back to the system; 0: not known.
int64_t resident_memory_bytes();

/// Restarts the peak of this process's resident memory.
void reset_peak_memory();

/// Resources that one rank and its host used while a row ran.
struct RankUse {
  double wall_s = 0;
  /// Processor time of the rank's process, and the part of it used by the communicator's own threads.
  double cpu_s = 0;
  double communication_cpu_s = 0;
  int64_t peak_memory_bytes = 0;
  /// Pages that the kernel had to map, minor and major faults together.
  int64_t page_faults = 0;
  /// Peak memory of tensors on the rank's GPU; 0 on a CPU.
  int64_t peak_device_memory_bytes = 0;
  /// Use of the rank's whole host by all of its processes.
  double host_busy_s = 0;
  double host_stolen_s = 0;
  double host_hardware_threads = 0;
  int64_t host_swapped_out_bytes = 0;
  /// 0: unknown.
  double frequency_at_begin_mhz = 0;
  double frequency_at_end_mhz = 0;
  /// Equal for ranks that share a process, and for processes that share a host.
  int64_t process = 0;
  int64_t host = 0;

  LOCKSTEP_DESCRIBE(kOptional, wall_s, cpu_s, communication_cpu_s, peak_memory_bytes, page_faults,
                    peak_device_memory_bytes, host_busy_s, host_stolen_s, host_hardware_threads,
                    host_swapped_out_bytes, frequency_at_begin_mhz, frequency_at_end_mhz, process, host)
};

/// Watches one rank's row, from construction to finish().
class UseWatch {
 public:
  UseWatch();
  /// `communication_cpu_s` and `peak_device_memory_bytes` are left to the caller.
  RankUse finish() const;

 private:
  RankUse begin_;
};

}  // namespace lockstep::topology
