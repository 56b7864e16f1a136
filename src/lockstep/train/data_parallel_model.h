#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "lockstep/models/model.h"
#include "lockstep/train/device_threads.h"

namespace lockstep::train {

/// A network that trains on several devices of one process, as torch.nn.DataParallel does. Every forward pass
/// copies an equal part of the batch to each device, copies all parameters and buffers of device 0 to the
/// others, runs the parts at the same time, a thread each, and gathers the outputs on device 0. Their
/// gradient is split and copied back, the backward passes run at the same time, and the gradients of the
/// copies are added to those of device 0, one device after the other, which gives the parameters of this
/// model theirs. None of it overlaps with anything else. With one device it is the network itself, as there.
///
/// Its parameters and buffers are device 0's: running statistics of the other devices are lost. Samples keep
/// their numbers. Used by one thread, which is device 0's.
class DataParallelModel final : public models::Model {
 public:
  using Create = std::function<std::unique_ptr<models::Model>()>;

  /// `create` makes one replica; `cpus` as for DeviceThreads.
  static std::unique_ptr<DataParallelModel> make(const Create& create, int devices,
                                                 const std::vector<std::vector<int>>& cpus);

  /// Throws Error unless the batch can be split into equal parts; outside of training device 0 then takes it.
  /// The gradient's graph must not outlive this, and only that of the last pass has one.
  models::Output forward(const at::Tensor& images, const kernels::Context& context) override;

  int devices() const { return threads_.devices(); }
  /// The replica of a device; that of another than device 0 is as it was in the last step.
  const models::Model& replica(int device) const { return *replicas_[static_cast<size_t>(device)]; }

 private:
  class Backward;

  DataParallelModel(std::vector<std::unique_ptr<models::Model>> replicas,
                    const std::vector<std::vector<int>>& cpus);

  void replicate();
  /// The outputs of all devices as one.
  models::Output gather(bool learns);
  /// Equal parts of a batch, copied.
  std::vector<at::Tensor> scatter(const at::Tensor& batch) const;
  /// The gradient of each parameter, of all devices together.
  std::vector<at::Tensor> backward(const std::vector<at::Tensor>& output_gradients);

  /// By device.
  std::vector<std::unique_ptr<models::Model>> replicas_;
  /// Of the last forward pass, with their graphs.
  std::vector<models::Output> outputs_;
  DeviceThreads threads_;
};

}  // namespace lockstep::train
