#include "lockstep/topology/use.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <malloc.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/host_name.h"
#include "lockstep/topology/system_files.h"

namespace lockstep::topology {
namespace {

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

std::vector<int> own_cpus() {
  std::vector<int> cpus;
  // Fails on machines with more than 1024 processors; all of them are meant then.
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (::sched_getaffinity(0, sizeof mask, &mask) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &mask)) cpus.push_back(cpu);
  }
  return cpus;
}

/// Adds the processor seconds of the host over all hardware threads.
void read_host_use(RankUse& use) {
  const std::string text = read_text("/proc/stat").value_or("");
  const std::vector<std::string_view> fields = split(std::string_view(text).substr(0, text.find('\n')), " ");
  const auto seconds_of = [&](size_t field) {
    if (field >= fields.size()) return 0.0;
    return leading_number<double>(fields[field]).value_or(0) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  };
  // cpu user nice system idle iowait irq softirq steal ...; the time of guests is part of user.
  for (const size_t field : {1, 2, 3, 6, 7}) use.host_busy_s += seconds_of(field);
  use.host_stolen_s = seconds_of(8);
}

/// Mean current frequency of the processors that the calling thread may run on; 0 if unknown.
double frequency_mhz() {
  const std::vector<int> cpus = own_cpus();
  double sum_mhz = 0;
  int known = 0;
  for (const int cpu : cpus) {
    const auto khz =
        read_number<double>(fmt::format("/sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq", cpu));
    if (!khz) continue;
    sum_mhz += *khz / 1000;
    ++known;
  }
  if (known > 0) return sum_mhz / known;
  // Most virtual machines have no cpufreq, only the kernel's own estimate.
  const std::string text = read_text("/proc/cpuinfo").value_or("");
  int processor = -1;
  for (const std::string_view line : split(text, "\n")) {
    if (const auto number = value_of(line, "processor", ':')) {
      processor = leading_number<int>(*number).value_or(-1);
    }
    const auto mhz = value_of(line, "cpu MHz", ':');
    if (!mhz) continue;
    if (!cpus.empty() && std::ranges::find(cpus, processor) == cpus.end()) continue;
    sum_mhz += leading_number<double>(*mhz).value_or(0);
    ++known;
  }
  return known > 0 ? sum_mhz / known : 0;
}

/// The current values of all counters; 0 for one that cannot be read.
RankUse use_so_far() {
  RankUse use;
  use.wall_s = now_s();
  rusage own{};
  if (::getrusage(RUSAGE_SELF, &own) == 0) {
    use.cpu_s = seconds(own.ru_utime) + seconds(own.ru_stime);
    use.page_faults = own.ru_minflt + own.ru_majflt;
  }
  const std::string status = read_text("/proc/self/status").value_or("");
  if (const auto peak = value_of(status, "VmHWM", ':'))
    use.peak_memory_bytes = leading_number<int64_t>(*peak).value_or(0) * 1024;
  read_host_use(use);
  use.host_hardware_threads = static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN));
  use.host_swapped_out_bytes = swap_used_bytes(read_text("/proc/meminfo").value_or(""));
  use.frequency_at_begin_mhz = frequency_mhz();
  use.process = ::getpid();
  use.host = static_cast<int64_t>(std::hash<std::string>()(host_name()));
  return use;
}

}  // namespace

int64_t resident_memory_bytes() {
  ::malloc_trim(0);
  const auto resident = value_of(read_text("/proc/self/status").value_or(""), "VmRSS", ':');
  return resident ? leading_number<int64_t>(*resident).value_or(0) * 1024 : 0;
}

void reset_peak_memory() {
  // 5 resets the peak resident size (proc(5)). A system without it keeps the peak of the whole process.
  std::ofstream("/proc/self/clear_refs") << "5";
}

UseWatch::UseWatch() {
  reset_peak_memory();
  begin_ = use_so_far();
}

RankUse UseWatch::finish() const {
  RankUse use = use_so_far();
  use.wall_s -= begin_.wall_s;
  use.cpu_s -= begin_.cpu_s;
  use.page_faults -= begin_.page_faults;
  use.host_busy_s -= begin_.host_busy_s;
  use.host_stolen_s -= begin_.host_stolen_s;
  use.host_swapped_out_bytes -= begin_.host_swapped_out_bytes;
  use.frequency_at_end_mhz = use.frequency_at_begin_mhz;
  use.frequency_at_begin_mhz = begin_.frequency_at_begin_mhz;
  return use;
}

}  // namespace lockstep::topology
