// lockstep's own declarations of CUDA's driver library against NVIDIA's header. All of it is checked by
// compiling it, which is done where that header is.

#include <cuda.h>

#include "lockstep/topology/driver_api.h"

#include "topology/same_call.h"

namespace lockstep::topology::cuda_driver {
namespace {

#define EXPECT_SAME_DRIVER_CALL(ours, theirs) \
  static_assert(SameCall<decltype(Functions::ours.pointer), decltype(&theirs)>::value, #theirs)

EXPECT_SAME_DRIVER_CALL(init, cuInit);
EXPECT_SAME_DRIVER_CALL(count, cuDeviceGetCount);
EXPECT_SAME_DRIVER_CALL(get, cuDeviceGet);
EXPECT_SAME_DRIVER_CALL(name, cuDeviceGetName);
EXPECT_SAME_DRIVER_CALL(pci_bus_id, cuDeviceGetPCIBusId);
// The header gives these names to the functions that are looked up with _v2 at their end.
EXPECT_SAME_DRIVER_CALL(uuid, cuDeviceGetUuid);
EXPECT_SAME_DRIVER_CALL(memory, cuDeviceTotalMem);

static_assert(kSuccess == CUDA_SUCCESS);
static_assert(sizeof(Device) == sizeof(CUdevice));
static_assert(sizeof(Uuid) == sizeof(CUuuid));

}  // namespace
}  // namespace lockstep::topology::cuda_driver
