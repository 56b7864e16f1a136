#include "lockstep/replica/random.h"

#include <ATen/CPUGeneratorImpl.h>

namespace lockstep::replica {

at::Generator stream_generator(uint64_t seed, std::string_view purpose, uint64_t index) {
  return at::make_generator<at::CPUGeneratorImpl>(stream_seed(seed, purpose, index));
}

}  // namespace lockstep::replica
