#include "lockstep/comm/cuda/cuda_copy_engine.h"
#include "lockstep/comm/staging/open_copy_engine.h"

namespace {

constexpr lockstep::comm::CopyEnginePluginV1 kPlugin = {lockstep::comm::kCopyEnginePluginAbiVersion,
                                                        lockstep::comm::open_cuda_copy_engine};

}  // namespace

extern "C" [[gnu::visibility("default")]] const lockstep::comm::CopyEnginePluginV1*
lockstep_copy_engine_plugin() {
  return &kPlugin;
}
