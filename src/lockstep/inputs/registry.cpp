#include "lockstep/inputs/dataset.h"
#include "lockstep/inputs/device.h"
#include "lockstep/inputs/input.h"

namespace lockstep::inputs {

const Registry<InputInfo>& registry() {
  static const Registry<InputInfo> all(
      "input", "lockstep info inputs",
      {
          {"device", {"random batches made once on the device and used in turn", create_device_input}},
          {"dataset",
           {"real data of --data FOLDER, read and decoded ahead: MNIST, CIFAR-10 or a folder of images",
            create_dataset_input}},
      });
  return all;
}

}  // namespace lockstep::inputs
