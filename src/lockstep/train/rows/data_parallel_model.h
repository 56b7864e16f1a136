#pragma once

#include <barrier>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include <c10/core/Stream.h>

#include "lockstep/base/activity.h"
#include "lockstep/models/model.h"
#include "lockstep/replica/accelerator.h"

namespace lockstep::train {

/// The threads of several devices in one process. The thread that makes it is device 0; each further device
/// gets one that lasts as long as this, bound to processors of its own, and computing with as many threads as
/// device 0. Between runs they sleep. Used by the thread of device 0.
class DeviceThreads {
 public:
  /// `cpus`: of each device; where it has none, or the list is shorter, a thread is not bound.
  DeviceThreads(int devices, const std::vector<std::vector<int>>& cpus);
  ~DeviceThreads();
  DeviceThreads(const DeviceThreads&) = delete;
  DeviceThreads& operator=(const DeviceThreads&) = delete;

  int devices() const { return static_cast<int>(threads_.size()) + 1; }

  /// Runs body(device) for all devices at the same time and returns when all have. Throws the first device's
  /// exception of those that threw.
  void run(const std::function<void(int device)>& body);

 private:
  void work(int device, const std::vector<int>& cpus, int threads);
  void run_one(int device);

  /// All devices meet at the begin and at the end of a run.
  std::barrier<> begin_;
  std::barrier<> end_;
  /// Null when a run begins: the threads are to end.
  const std::function<void(int)>* body_ = nullptr;
  /// By device.
  std::vector<std::exception_ptr> errors_;
  std::vector<std::thread> threads_;
};

/// A network that trains on several devices of one process, as torch.nn.DataParallel does. Every forward pass
/// copies an equal part of the batch to each device, copies all parameters and buffers of device 0 to the
/// others, runs the parts at the same time, a thread each, and gathers the outputs on device 0. Their
/// gradient is split and copied back, the backward passes run at the same time, and the gradients of the
/// copies are added to those of device 0, one device after the other, which gives the parameters of this
/// model theirs. Nothing overlaps. With one device it is the network itself, as in PyTorch.
///
/// Its parameters and buffers are device 0's: running statistics of the other devices are lost. Samples keep
/// their numbers. Used by one thread, which is device 0's.
///
/// On GPUs every device has one of its own and works in its accelerator's stream; copies between two devices
/// are in both of their streams, and the host waits for none of it.
class DataParallelModel final : public models::Model, public models::WholeStep {
 public:
  using Create = std::function<std::unique_ptr<models::Model>()>;

  using Accelerators = std::vector<std::shared_ptr<replica::Accelerator>>;

  /// `create` makes one replica, in host memory; `cpus` as for DeviceThreads. `accelerators`: of each device,
  /// that of device 0 entered by the calling thread; empty: all of them are on the CPU. Throws ConfigError
  /// where two have the same GPU, because LibTorch has one thread per GPU for backward passes, in which
  /// device 0 waits for the others.
  static std::unique_ptr<DataParallelModel> make(const Create& create, int devices,
                                                 const std::vector<std::vector<int>>& cpus,
                                                 Accelerators accelerators = {});

  /// Throws Error unless the batch can be split into equal parts; outside of training device 0 then takes it.
  /// The gradient's graph must not outlive this, and only that of the last pass has one.
  models::Output forward(const at::Tensor& images, const kernels::Context& context) override;

  /// For a network that has whole steps: every device runs one, on its part of the samples.
  models::WholeStep* whole_step() override {
    return replicas_.front()->whole_step() == nullptr ? nullptr : this;
  }
  at::Tensor run(const std::vector<at::Tensor>& samples, const kernels::Context& context,
                 const at::Tensor& scale, const std::function<void()>& forward_done) override;

  /// `listener` receives the times at which data moves between devices. It must outlive this.
  void set_listener(ActivityListener* listener) { activities_ = listener; }

  int devices() const { return threads_.devices(); }
  /// The replica of a device; that of another than device 0 is as it was in the last step.
  const models::Model& replica(int device) const { return *replicas_[static_cast<size_t>(device)]; }

 private:
  class Backward;

  DataParallelModel(std::vector<std::unique_ptr<models::Model>> replicas,
                    const std::vector<std::vector<int>>& cpus, Accelerators accelerators);

  /// Every thread on its GPU, and its replica with it.
  void enter_gpus();
  at::Device device_of(int device) const;
  void replicate();
  /// The outputs of all devices as one.
  models::Output gather(bool learns);
  /// Equal parts of a batch, copied to the devices.
  std::vector<at::Tensor> scatter(const at::Tensor& batch) const;
  /// The gradient of each parameter, of all devices together.
  std::vector<at::Tensor> backward(const std::vector<at::Tensor>& output_gradients);

  ActivityListener* activities_ = nullptr;
  /// By device; empty on the CPU.
  Accelerators accelerators_;
  std::vector<c10::Stream> streams_;
  /// By device.
  std::vector<std::unique_ptr<models::Model>> replicas_;
  /// Outputs of the last forward pass, with their graphs.
  std::vector<models::Output> outputs_;
  DeviceThreads threads_;
};

}  // namespace lockstep::train
