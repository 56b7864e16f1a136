#include "lockstep/inputs/dataset.h"
#include "lockstep/inputs/input.h"
#include "lockstep/inputs/sources.h"

namespace lockstep::inputs {

const Registry<InputInfo>& registry() {
  // Order of the list that `lockstep info inputs` prints.
  static const Registry<InputInfo> all(
      "input", "lockstep info inputs",
      {
          {"device", {"random batches made once on the device and used in turn", create_device_input}},
          {"host",
           {.description = "random batches made anew in host memory for every step, copied to the device one "
                           "step ahead",
            .create = create_host_input,
            .has_workers = true}},
          {"queue",
           {.description = "the same by producer threads of their own, through a bounded queue",
            .create = create_queue_input,
            .has_workers = true,
            .has_prefetch = true}},
          {"dataset",
           {.description =
                "real data of --data FOLDER, read and decoded ahead: MNIST, CIFAR-10 or a folder of images",
            .create = create_dataset_input,
            .has_workers = true,
            .has_prefetch = true,
            .has_data = true}},
          {"zmq",
           {.description =
                "batches that other processes, such as 'lockstep feed', send to --address through ZeroMQ",
            .create = create_zmq_input,
            .has_prefetch = true,
            .has_address = true}},
      });
  return all;
}

}  // namespace lockstep::inputs
