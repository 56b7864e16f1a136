#include "strategies/trained_replica.h"

#include <ATen/Parallel.h>

#include "lockstep/comm/backend.h"
#include "lockstep/comm/store.h"
#include "lockstep/launch/threads.h"

namespace lockstep::test {

train::StepLoopResult TrainedReplica::train(int steps, bool coupled) {
  launch::Progress progress;
  return train::run_steps(
      {.model = *model,
       .input = *input,
       .strategy = *strategy,
       .communicator = communicator,
       .accelerator = accelerator.get(),
       .loss_scale = loss_scale.get()},
      {.pacing = {.warmup_steps = 0, .steps = steps}, .accumulate = accumulate, .coupled = coupled},
      progress);
}

std::vector<float> TrainedReplica::parameters() const {
  std::vector<float> flat;
  for (const at::Tensor& tensor : model->parameters().tensors()) {
    // The memory as it lies: the same layout on every replica.
    const at::Tensor here = tensor.detach().cpu();
    const auto* begin = static_cast<const float*>(here.const_data_ptr());
    flat.insert(flat.end(), begin, begin + tensor.numel());
  }
  return flat;
}

TrainedReplica make_replica(const ReplicaChoice& choice, comm::Communicator* communicator) {
  at::set_num_threads(1);
  const models::ModelInfo& info = models::registry().get(choice.model);
  TrainedReplica replica;
  replica.model = info.create({});
  replica.accelerator = choice.accelerator;
  if (choice.accelerator) replica.model->parameters().move_to(choice.accelerator->device());
  replica.input = inputs::registry().get("device").create(
      {.batch = choice.batch,
       .channels = info.channels,
       .image_size = choice.image_size == 0 ? info.image_size : choice.image_size,
       .classes = info.classes,
       .rank = communicator == nullptr ? 0 : communicator->rank(),
       .ranks = communicator == nullptr ? 1 : communicator->size(),
       .accelerator = choice.accelerator});
  replica.communicator = choice.control == nullptr ? communicator : choice.control;
  replica.accumulate = choice.accumulate;
  const at::Device device = choice.accelerator ? choice.accelerator->device() : at::Device(at::kCPU);
  if (choice.loss_scale) {
    replica.loss_scale = std::make_shared<replica::LossScale>(
        device, replica::LossScaleOptions{.initial = *choice.loss_scale});
  }
  replica.strategy =
      strategies::registry()
          .get(choice.strategy)
          .create({.parameters = replica.model->parameters(),
                   .optimizer = {.learning_rate = choice.learning_rate, .loss_scale = replica.loss_scale},
                   .communicator = communicator,
                   .options = choice.strategy_options,
                   .accelerator = choice.accelerator.get(),
                   .activities = replica.activities.get(),
                   .control = choice.control});
  return replica;
}

void with_thread_ranks(int ranks, const std::function<void(comm::Communicator&)>& rank_body) {
  comm::HashStore store;
  launch::run_threads(ranks, [&](int rank) {
    // Tests run side by side: teams of several threads would spin for each other's cores.
    at::set_num_threads(1);
    const auto communicator = comm::connect(
        "thread",
        {.rank = rank, .size = ranks, .store = &store, .timeout = comm::Duration(15), .interface = ""});
    rank_body(*communicator);
  });
}

}  // namespace lockstep::test
