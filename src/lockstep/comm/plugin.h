#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/comm/backend.h"
#include "lockstep/comm/communicator.h"

namespace lockstep::comm {

constexpr uint32_t kPluginAbiVersion = 2;

/// What a plugin offers. Program and plugin come from the same build; abi_version catches a stray old one.
/// Objects are freed through their virtual destructors, so on the side that made them. Only exceptions of
/// lockstep/base/error.h leave a plugin.
struct PluginV2 {
  uint32_t abi_version;
  /// "Gloo 0.5.0"; static text.
  const char* library;
  /// See comm::connect; at least two ranks. The caller owns the communicator.
  Communicator* (*connect)(const ConnectOptions& options);
  /// Throws BackendMissing where the library is there and cannot work: no device, no driver. May be null.
  void (*check)() = nullptr;
};

/// The one symbol of a plugin, `lockstep_backend_plugin`.
using PluginEntry = const PluginV2* (*)();

/// Opens lockstep_<backend>.so, once per process and never closed, and checks that it can work. Thread-safe.
/// Throws BackendMissing, which says what to install.
const PluginV2& open_plugin(const std::string& backend);

}  // namespace lockstep::comm
