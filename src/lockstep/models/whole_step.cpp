#include "lockstep/models/whole_step.h"

#include <mutex>

#include <ATen/Context.h>

#include "lockstep/replica/random.h"

namespace lockstep::models {

void seed_step(const kernels::Context& context, at::Device device) {
  const uint64_t of_step =
      replica::stream_seed(context.seed, "traced step", static_cast<uint64_t>(context.step));
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(
      replica::stream_seed(of_step, "rank", static_cast<uint64_t>(context.first_sample)));
}

}  // namespace lockstep::models
