// A network whose training steps take as long as a file says, for series of which the truth is known. It is
// the program's --model and, for its clock, in LD_PRELOAD: from its first step on, the thread that trains
// reads a steady clock that stands still but for the told times. All other threads read the real one.
//
// LOCKSTEP_TOLD names the file: a launch per line, the seconds of its steps one after another, from the start
// again behind the last. A process takes a line by chance.

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <dlfcn.h>

#include <torch/nn/modules/linear.h>

#include "lockstep/models/network_plugin.h"

namespace {

using lockstep::plugin::Network;
using lockstep::plugin::Tensors;

/// Distinguishes training from the program's first look at the network, which has two samples.
constexpr int64_t kBatch = 4;

/// Of this thread's clock, in nanoseconds; 0 as long as it is the real one.
thread_local int64_t told_now_ns = 0;

using Reader = int (*)(clockid_t, timespec*);

Reader real_clock() {
  static const Reader reader = reinterpret_cast<Reader>(::dlsym(RTLD_NEXT, "clock_gettime"));
  return reader;
}

std::vector<double> told_steps() {
  const char* path = std::getenv("LOCKSTEP_TOLD");
  std::ifstream file(path == nullptr ? "" : path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  if (lines.empty()) throw std::runtime_error("LOCKSTEP_TOLD names no file with the seconds of steps");
  std::random_device random;
  std::istringstream chosen(lines[random() % lines.size()]);
  std::vector<double> steps;
  for (double step_s = 0; chosen >> step_s;) steps.push_back(step_s);
  return steps;
}

void pass_a_step() {
  static const std::vector<double> steps = told_steps();
  static size_t next = 0;
  if (told_now_ns == 0) {
    timespec now{};
    real_clock()(CLOCK_MONOTONIC, &now);
    told_now_ns = now.tv_sec * 1'000'000'000LL + now.tv_nsec;
  }
  told_now_ns += static_cast<int64_t>(steps[next] * 1e9);
  next = (next + 1) % steps.size();
}

Network create_told() {
  const auto module = std::make_shared<torch::nn::LinearImpl>(1, 1);
  return {.module = module,
          .inputs = {{.name = "number", .shape = {1}}},
          .targets = {},
          .loss =
              [module](const Tensors& inputs, const Tensors& /*targets*/) {
                if (inputs[0].size(0) == kBatch) pass_a_step();
                return module->forward(inputs[0]).square().mean();
              },
          .default_batch = kBatch};
}
LOCKSTEP_MODEL(told, create_told)

}  // namespace

extern "C" __attribute__((visibility("default"))) int clock_gettime(clockid_t clock,
                                                                    timespec* time) noexcept {
  if (clock != CLOCK_MONOTONIC || told_now_ns == 0) return real_clock()(clock, time);
  // A clock that people compute rates with never shows the same time twice.
  ++told_now_ns;
  *time = {.tv_sec = told_now_ns / 1'000'000'000, .tv_nsec = told_now_ns % 1'000'000'000};
  return 0;
}
