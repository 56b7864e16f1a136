#pragma once

#include <cstdint>

namespace lockstep::topology {

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

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& use) {
    fields("wall_s", use.wall_s);
    fields("cpu_s", use.cpu_s);
    fields("communication_cpu_s", use.communication_cpu_s);
    fields("peak_memory_bytes", use.peak_memory_bytes);
    fields("page_faults", use.page_faults);
    fields("peak_device_memory_bytes", use.peak_device_memory_bytes);
    fields("host_busy_s", use.host_busy_s);
    fields("host_stolen_s", use.host_stolen_s);
    fields("host_hardware_threads", use.host_hardware_threads);
    fields("host_swapped_out_bytes", use.host_swapped_out_bytes);
    fields("frequency_at_begin_mhz", use.frequency_at_begin_mhz);
    fields("frequency_at_end_mhz", use.frequency_at_end_mhz);
    fields("process", use.process);
    fields("host", use.host);
  }
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
