#pragma once

#include <cstdint>
#include <optional>

namespace lockstep::topology {

/// What the calling process has used so far.
struct ProcessUse {
  /// All threads, user and system.
  double cpu_s = 0;
  /// Highest resident memory since reset_peak_memory.
  int64_t peak_memory_bytes = 0;
};

/// What all processes of the host have used so far, in processor seconds over all hardware threads.
struct HostUse {
  double busy_s = 0;
  /// Taken away by the hypervisor for others.
  double stolen_s = 0;
  int64_t swap_used_bytes = 0;
};

/// Never throw; what cannot be read is 0.
ProcessUse read_process_use();
HostUse read_host_use();

/// Lets the peak of this process's resident memory start over.
void reset_peak_memory();

/// Current frequency of the processors that the calling thread may run on, mean; empty where the system does
/// not tell.
std::optional<double> read_frequency_mhz();

/// What one rank saw while a row ran.
struct RankUse {
  double wall_s = 0;
  /// Of the rank's process, and of it what the communicator's own threads used.
  double cpu_s = 0;
  double communication_cpu_s = 0;
  int64_t peak_memory_bytes = 0;
  /// Of tensors on the rank's GPU; 0 on a CPU.
  int64_t peak_device_memory_bytes = 0;
  /// Of the rank's whole host.
  double host_busy_s = 0;
  double host_stolen_s = 0;
  double host_hardware_threads = 0;
  int64_t host_swapped_out_bytes = 0;
  /// 0: not known.
  double frequency_at_begin_mhz = 0;
  double frequency_at_end_mhz = 0;
  /// Tell apart ranks that share a process, and processes that share a host.
  int64_t process = 0;
  int64_t host = 0;
};

/// Watches one rank's row, from construction to finish().
class UseWatch {
 public:
  UseWatch();
  /// `communication_cpu_s` and `peak_device_memory_bytes` are for the caller to fill in.
  RankUse finish() const;

 private:
  double begin_s_;
  ProcessUse process_;
  HostUse host_;
  std::optional<double> frequency_mhz_;
};

}  // namespace lockstep::topology
