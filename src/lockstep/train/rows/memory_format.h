#pragma once

#include <string>

#include <c10/core/MemoryFormat.h>

namespace lockstep::train {

/// "channels_last" or "contiguous". Throws ConfigError with the nearest names.
c10::MemoryFormat parse_memory_format(const std::string& name);

}  // namespace lockstep::train
