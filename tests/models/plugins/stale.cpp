// What a shared object says that was built with the header of another version, for another LibTorch.

#include <cstdint>

struct OldTable {
  uint32_t version = 99;
  uint32_t torch_major = 2;
  uint32_t torch_minor = 5;
  const void* first = nullptr;
};

extern "C" const OldTable* lockstep_networks() {
  static const OldTable table;
  return &table;
}
