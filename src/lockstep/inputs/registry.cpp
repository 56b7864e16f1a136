#include "lockstep/inputs/device.h"
#include "lockstep/inputs/input.h"

namespace lockstep::inputs {

const Registry<InputInfo>& registry() {
  static const Registry<InputInfo> all(
      "input", "lockstep info inputs",
      {
          {"device", {"random batches made once on the device and used in turn", create_device_input}},
      });
  return all;
}

}  // namespace lockstep::inputs
