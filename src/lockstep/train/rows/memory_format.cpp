#include "lockstep/train/rows/memory_format.h"

#include "lockstep/base/registry.h"

namespace lockstep::train {

c10::MemoryFormat parse_memory_format(const std::string& name) {
  static const Registry<c10::MemoryFormat> formats(
      "memory format", "lockstep bench --help",
      {{"channels_last", c10::MemoryFormat::ChannelsLast}, {"contiguous", c10::MemoryFormat::Contiguous}});
  return formats.get(name);
}

}  // namespace lockstep::train
