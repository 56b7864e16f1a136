#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/comm/backend.h"
#include "lockstep/comm/communicator.h"

namespace lockstep::comm {

constexpr uint32_t kPluginAbiVersion = 5;

/// "2.28.9", from macros that stand for numbers.
#define LOCKSTEP_TEXT(number) #number
#define LOCKSTEP_VERSION_TEXT(major, minor, patch) \
  LOCKSTEP_TEXT(major) "." LOCKSTEP_TEXT(minor) "." LOCKSTEP_TEXT(patch)

/// Contents of a backend's plugin. Program and plugin come from the same build; abi_version catches a stray
/// old one. Objects are freed through their virtual destructors, hence on the side that made them. Only
/// exceptions of lockstep/base/error.h leave a plugin.
struct BackendPlugin {
  uint32_t abi_version;
  /// "Gloo 0.5.0"; static text.
  const char* library;
  /// See comm::connect; called for at least two ranks (nccl: one). The caller owns the communicator.
  Communicator* (*connect)(const ConnectOptions& options);
  /// Throws BackendMissing if the library is there but cannot work: no device, no driver. May be null.
  void (*check)() = nullptr;
};

}  // namespace lockstep::comm
