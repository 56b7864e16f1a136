#include "lockstep/topology/use.h"

#include <array>
#include <fstream>
#include <functional>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lockstep/base/clock.h"
#include "lockstep/topology/system_files.h"
#include "lockstep/topology/text_file.h"

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

int64_t host_number() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return static_cast<int64_t>(std::hash<std::string_view>()(name.data()));
}

}  // namespace

ProcessUse read_process_use() {
  ProcessUse use;
  rusage own{};
  if (::getrusage(RUSAGE_SELF, &own) == 0) use.cpu_s = seconds(own.ru_utime) + seconds(own.ru_stime);
  const std::string status = read_text("/proc/self/status").value_or("");
  if (const auto peak = value_of(status, "VmHWM", ':')) {
    use.peak_memory_bytes = leading_number<int64_t>(*peak).value_or(0) * 1024;
  }
  return use;
}

HostUse read_host_use() {
  HostUse use;
  const std::string text = read_text("/proc/stat").value_or("");
  const std::vector<std::string_view> fields = split(std::string_view(text).substr(0, text.find('\n')), " ");
  const double tick_s = 1.0 / static_cast<double>(::sysconf(_SC_CLK_TCK));
  // cpu user nice system idle iowait irq softirq steal ...; the time of guests is part of user.
  for (const size_t field : {1, 2, 3, 6, 7}) {
    if (field < fields.size()) use.busy_s += leading_number<double>(fields[field]).value_or(0) * tick_s;
  }
  if (fields.size() > 8) use.stolen_s = leading_number<double>(fields[8]).value_or(0) * tick_s;
  use.swap_used_bytes = swap_used_bytes(read_text("/proc/meminfo").value_or(""));
  return use;
}

void reset_peak_memory() {
  // 5 resets the peak resident size (proc(5)). A system without it keeps the peak of the whole process.
  std::ofstream("/proc/self/clear_refs") << "5";
}

std::optional<double> read_frequency_mhz() {
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
    bool wanted = cpus.empty();
    for (const int cpu : cpus) wanted = wanted || cpu == processor;
    if (!wanted) continue;
    sum_mhz += leading_number<double>(*mhz).value_or(0);
    ++known;
  }
  return known > 0 ? std::optional(sum_mhz / known) : std::nullopt;
}

UseWatch::UseWatch() {
  reset_peak_memory();
  begin_s_ = now_s();
  process_ = read_process_use();
  host_ = read_host_use();
  frequency_mhz_ = read_frequency_mhz();
}

RankUse UseWatch::finish() const {
  const ProcessUse process = read_process_use();
  const HostUse host = read_host_use();
  return {.wall_s = now_s() - begin_s_,
          .cpu_s = process.cpu_s - process_.cpu_s,
          .communication_cpu_s = 0,
          .peak_memory_bytes = process.peak_memory_bytes,
          .peak_device_memory_bytes = 0,
          .host_busy_s = host.busy_s - host_.busy_s,
          .host_stolen_s = host.stolen_s - host_.stolen_s,
          .host_hardware_threads = static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN)),
          .host_swapped_out_bytes = host.swap_used_bytes - host_.swap_used_bytes,
          .frequency_at_begin_mhz = frequency_mhz_.value_or(0),
          .frequency_at_end_mhz = read_frequency_mhz().value_or(0),
          .process = ::getpid(),
          .host = host_number()};
}

}  // namespace lockstep::topology
