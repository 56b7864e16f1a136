#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/comm/staging/copy_engine.h"

namespace lockstep::comm {

constexpr uint32_t kCopyEnginePluginAbiVersion = 1;

/// What the plugin lockstep_cuda_copies.so offers.
struct CopyEnginePluginV1 {
  uint32_t abi_version;
  /// The engine of GPU number `device` of this process. Throws BackendMissing, ConfigError, CommError. The
  /// caller owns it.
  CopyEngine* (*open)(int device);
};

/// The plugin's one symbol, `lockstep_copy_engine_plugin`.
using CopyEnginePluginEntry = const CopyEnginePluginV1* (*)();

/// The copy engine of GPU number `device`, from the plugin, which is opened once per process and never
/// closed. Thread-safe. Throws BackendMissing, which says what to install, and ConfigError for a number that
/// no GPU has.
std::shared_ptr<CopyEngine> open_copy_engine(int device);

/// Opens the plugin and leaves the GPUs alone. Throws BackendMissing.
void require_copy_engine();

}  // namespace lockstep::comm
