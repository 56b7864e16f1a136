// A delay of known size in every training step: put into a program with LD_PRELOAD, it makes each reading of
// the steady clock take LOCKSTEP_SLOW_NS nanoseconds longer in processes of `lockstep bench --seed 2`. A step
// reads the clock a few times in the strategy and in the backend.

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

#include <dlfcn.h>

namespace {

using Reader = int (*)(clockid_t, timespec*);

Reader next_reader() {
  return reinterpret_cast<Reader>(::dlsym(RTLD_NEXT, "clock_gettime"));
}

/// The words that this process was started with, each with a zero byte on both sides.
std::string own_words() {
  std::string words(1, '\0');
  std::FILE* file = std::fopen("/proc/self/cmdline", "r");
  if (file == nullptr) return words;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) words += static_cast<char>(c);
  std::fclose(file);
  return words;
}

long long wanted_delay_ns() {
  const char* delay = std::getenv("LOCKSTEP_SLOW_NS");
  if (delay == nullptr) return 0;
  const std::string words = own_words();
  const auto has = [&](const std::string& part) { return words.find(part) != std::string::npos; };
  const std::string end(1, '\0');
  return has(end + "bench" + end) && has(end + "--seed" + end + "2" + end) ? std::atoll(delay) : 0;
}

long long nanoseconds(const timespec& time) {
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static const Reader reader = next_reader();
  static const long long delay_ns = wanted_delay_ns();
  const int failed = reader(clock, time);
  if (delay_ns == 0 || failed != 0 || clock != CLOCK_MONOTONIC) return failed;
  const long long end = nanoseconds(*time) + delay_ns;
  while (nanoseconds(*time) < end) reader(clock, time);
  return 0;
}
