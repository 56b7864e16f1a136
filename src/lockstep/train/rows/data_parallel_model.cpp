#include "lockstep/train/rows/data_parallel_model.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include "lockstep/base/error.h"
#include "lockstep/launch/binding.h"
#include "lockstep/replica/precision.h"

namespace lockstep::train {
namespace {

/// The outputs with a gradient: the logits of the network and of its auxiliary classifiers.
std::vector<at::Tensor> logits_of(const models::Output& output) {
  std::vector<at::Tensor> logits{output.logits};
  for (const models::AuxiliaryLogits& auxiliary : output.auxiliary) logits.push_back(auxiliary.logits);
  return logits;
}

void check_gpus(const DataParallelModel::Accelerators& accelerators, size_t devices) {
  if (accelerators.empty()) return;
  if (accelerators.size() != devices) {
    throw Error(fmt::format("{} GPUs were given for {} devices", accelerators.size(), devices));
  }
  for (size_t i = 0; i < devices; ++i) {
    for (size_t other = 0; other < i; ++other) {
      if (accelerators[i]->device() != accelerators[other]->device()) continue;
      throw ConfigError(
          fmt::format("data_parallel needs a GPU for every device, but devices {} and {} are both "
                      "on {}",
                      other, i, accelerators[i]->device().str()),
          "Use fewer --ranks, or a strategy of several processes.");
    }
  }
}

}  // namespace

/// The node where the graph of device 0's loss meets the graphs of the devices.
class DataParallelModel::Backward final : public torch::autograd::Node {
 public:
  explicit Backward(DataParallelModel& model) : model_(model) {}

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    return model_.backward(gradients);
  }

 private:
  DataParallelModel& model_;
};

std::unique_ptr<DataParallelModel> DataParallelModel::make(const Create& create, int devices,
                                                           const std::vector<std::vector<int>>& cpus,
                                                           Accelerators accelerators) {
  check_gpus(accelerators, static_cast<size_t>(devices));
  std::vector<std::unique_ptr<models::Model>> replicas;
  for (int device = 0; device < devices; ++device) replicas.push_back(create());
  return std::unique_ptr<DataParallelModel>(
      new DataParallelModel(std::move(replicas), cpus, std::move(accelerators)));
}

DataParallelModel::DataParallelModel(std::vector<std::unique_ptr<models::Model>> replicas,
                                     const std::vector<std::vector<int>>& cpus, Accelerators accelerators)
    : Model(replicas.front()->parameters()),
      accelerators_(std::move(accelerators)),
      replicas_(std::move(replicas)),
      outputs_(replicas_.size()),
      threads_(static_cast<int>(replicas_.size()), cpus) {
  if (!accelerators_.empty()) enter_gpus();
}

void DataParallelModel::enter_gpus() {
  std::vector<std::optional<c10::Stream>> streams(replicas_.size());
  threads_.run([&](int device) {
    const auto index = static_cast<size_t>(device);
    accelerators_[index]->enter_thread();
    const at::Device gpu = accelerators_[index]->device();
    replicas_[index]->parameters().move_to(gpu);
    streams[index] = c10::impl::VirtualGuardImpl(gpu.type()).getStream(gpu);
  });
  for (const std::optional<c10::Stream>& stream : streams) streams_.push_back(*stream);
}

at::Device DataParallelModel::device_of(int device) const {
  return accelerators_.empty() ? at::Device(at::kCPU) : accelerators_[static_cast<size_t>(device)]->device();
}

models::Output DataParallelModel::forward(const at::Tensor& images, const kernels::Context& context) {
  const bool splits = images.size(0) % devices() == 0;
  if (devices() == 1 || (!context.training && !splits)) return replicas_.front()->forward(images, context);
  if (!splits) {
    throw Error(fmt::format("a batch of {} cannot be split into equal parts for {} devices", images.size(0),
                            devices()));
  }
  // Copies from one device to another are between these streams; on the CPU there are none.
  const c10::MultiStreamGuard in_all_streams(streams_);
  const std::vector<at::Tensor> parts = scatter(images);
  replicate();
  const at::ThreadLocalState state;
  const replica::AutocastType autocast_type(device_of(0).type());
  threads_.run([&](int device) {
    const at::ThreadLocalStateGuard as_device_0(state);
    autocast_type.take_over();
    const auto index = static_cast<size_t>(device);
    kernels::Context own = context;
    own.first_sample += device * parts[index].size(0);
    // The tensor is on one device.
    own.step_on_device = nullptr;
    outputs_[index] = replicas_[index]->forward(parts[index], own);
  });
  return gather(at::GradMode::is_enabled());
}

at::Tensor DataParallelModel::run(const std::vector<at::Tensor>& samples, const kernels::Context& context,
                                  const at::Tensor& scale, const std::function<void()>& forward_done) {
  if (devices() == 1) return replicas_.front()->whole_step()->run(samples, context, scale, forward_done);
  // By tensor, then by device.
  std::vector<std::vector<at::Tensor>> parts;
  for (const at::Tensor& tensor : samples) parts.push_back(scatter(tensor));
  replicate();
  // The mean of the devices' means.
  const at::Tensor share = scale.div(devices());
  std::vector<at::Tensor> losses(replicas_.size());
  threads_.run([&](int device) {
    const auto index = static_cast<size_t>(device);
    std::vector<at::Tensor> own_samples;
    for (const std::vector<at::Tensor>& of_tensor : parts) own_samples.push_back(of_tensor[index]);
    kernels::Context own = context;
    own.first_sample += device * own_samples.front().size(0);
    const std::function<void()> nothing = [] {};
    losses[index] =
        replicas_[index]->whole_step()->run(own_samples, own, share, device == 0 ? forward_done : nothing);
  });
  const ActivityScope adding(activities_, Activity::kCommunicating);
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> parameters = this->parameters().tensors();
  for (size_t device = 1; device < replicas_.size(); ++device) {
    const std::vector<at::Tensor> copies = replicas_[device]->parameters().tensors();
    for (size_t i = 0; i < parameters.size(); ++i) {
      parameters[i].grad().add_(copies[i].grad());
      copies[i].mutable_grad().reset();
    }
    losses.front() = losses.front().add(losses[device]);
  }
  return losses.front().div(devices());
}

models::Output DataParallelModel::gather(bool learns) {
  const ActivityScope gathering(activities_, Activity::kCommunicating);
  const at::NoGradGuard no_grad;
  models::Output gathered = outputs_.front();
  std::vector<at::Tensor*> results{&gathered.logits};
  for (models::AuxiliaryLogits& auxiliary : gathered.auxiliary) results.push_back(&auxiliary.logits);
  for (size_t i = 0; i < results.size(); ++i) {
    std::vector<at::Tensor> parts;
    for (const models::Output& output : outputs_) {
      const at::Tensor own = logits_of(output)[i];
      parts.push_back(own.to(device_of(0), own.scalar_type(), /*non_blocking=*/true));
    }
    *results[i] = at::cat(parts);
  }
  if (learns) {
    const std::shared_ptr<Backward> node(new Backward(*this), torch::autograd::deleteNode);
    node->set_next_edges(torch::autograd::collect_next_edges(parameters().tensors()));
    for (at::Tensor* result : results) torch::autograd::set_history(*result, node);
  }
  return gathered;
}

void DataParallelModel::replicate() {
  const ActivityScope replicating(activities_, Activity::kCommunicating);
  const at::NoGradGuard no_grad;
  const auto copy = [](const std::vector<replica::NamedTensor>& from,
                       const std::vector<replica::NamedTensor>& to) {
    for (size_t i = 0; i < from.size(); ++i) to[i].value.copy_(from[i].value, /*non_blocking=*/true);
  };
  for (size_t device = 1; device < replicas_.size(); ++device) {
    copy(parameters().trainable(), replicas_[device]->parameters().trainable());
    copy(parameters().buffers(), replicas_[device]->parameters().buffers());
  }
}

std::vector<at::Tensor> DataParallelModel::scatter(const at::Tensor& batch) const {
  const ActivityScope scattering(activities_, Activity::kCommunicating);
  const int64_t count = batch.size(0) / devices();
  std::vector<at::Tensor> parts;
  for (int device = 0; device < devices(); ++device) {
    parts.push_back(batch.narrow(0, device * count, count)
                        .to(device_of(device), batch.scalar_type(), /*non_blocking=*/true, /*copy=*/true));
  }
  return parts;
}

std::vector<at::Tensor> DataParallelModel::backward(const std::vector<at::Tensor>& output_gradients) {
  const at::NoGradGuard no_grad;
  const c10::MultiStreamGuard in_all_streams(streams_);
  // By output, then by device.
  std::vector<std::vector<at::Tensor>> parts;
  for (const at::Tensor& gradient : output_gradients) parts.push_back(scatter(gradient));
  std::vector<std::vector<at::Tensor>> gradients(replicas_.size());
  threads_.run([&](int device) {
    const auto index = static_cast<size_t>(device);
    const models::Output output = std::exchange(outputs_[index], models::Output());
    std::vector<at::Tensor> own_parts;
    for (const std::vector<at::Tensor>& of_output : parts) own_parts.push_back(of_output[index]);
    gradients[index] =
        torch::autograd::grad(logits_of(output), replicas_[index]->parameters().tensors(), own_parts,
                              /*retain_graph=*/false, /*create_graph=*/false, /*allow_unused=*/true);
  });
  const ActivityScope adding(activities_, Activity::kCommunicating);
  std::vector<at::Tensor> sums = std::move(gradients.front());
  for (size_t device = 1; device < gradients.size(); ++device) {
    for (size_t i = 0; i < sums.size(); ++i) {
      if (!gradients[device][i].defined()) continue;
      const at::Tensor more = gradients[device][i].to(device_of(0), at::kFloat, /*non_blocking=*/true);
      // A tensor from a backward pass may be shared with other gradients, so the first sum gets memory of its
      // own.
      if (device == 1) {
        sums[i] = sums[i].defined() ? at::add(sums[i], more) : more.clone();
      } else {
        sums[i].add_(more);
      }
    }
  }
  return sums;
}

DeviceThreads::DeviceThreads(int devices, const std::vector<std::vector<int>>& cpus)
    : begin_(devices), end_(devices), errors_(static_cast<size_t>(devices)) {
  const int threads = at::get_num_threads();
  for (int device = 1; device < devices; ++device) {
    const auto index = static_cast<size_t>(device);
    const std::vector<int> own = index < cpus.size() ? cpus[index] : std::vector<int>();
    threads_.emplace_back([this, device, own, threads] { work(device, own, threads); });
  }
}

DeviceThreads::~DeviceThreads() {
  body_ = nullptr;
  begin_.arrive_and_wait();
  for (std::thread& thread : threads_) thread.join();
}

void DeviceThreads::run(const std::function<void(int device)>& body) {
  body_ = &body;
  begin_.arrive_and_wait();
  run_one(0);
  end_.arrive_and_wait();
  for (std::exception_ptr& error : errors_) {
    if (error) std::rethrow_exception(std::exchange(error, nullptr));
  }
}

void DeviceThreads::run_one(int device) {
  std::exception_ptr& error = errors_[static_cast<size_t>(device)];
  error = nullptr;
  try {
    (*body_)(device);
  } catch (...) {
    error = std::current_exception();
  }
}

void DeviceThreads::work(int device, const std::vector<int>& cpus, int threads) {
  std::exception_ptr unbound;
  try {
    launch::bind_this_thread(cpus);
  } catch (...) {
    unbound = std::current_exception();
  }
  at::set_num_threads(threads);
  while (true) {
    begin_.arrive_and_wait();
    if (body_ == nullptr) return;
    if (unbound) {
      errors_[static_cast<size_t>(device)] = unbound;
    } else {
      run_one(device);
    }
    end_.arrive_and_wait();
  }
}

}  // namespace lockstep::train
