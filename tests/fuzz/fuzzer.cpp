// Entry point that libFuzzer calls. Anything thrown ends the fuzzer, which then keeps the input.

#include <cstddef>
#include <cstdint>

#include "fuzz/reader.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer looks for this name.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lockstep::fuzz::LOCKSTEP_READER({reinterpret_cast<const char*>(data), size});
  return 0;
}
