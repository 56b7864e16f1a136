#include "lockstep/train/rows/device_threads.h"

#include <utility>

#include <ATen/Parallel.h>

#include "lockstep/launch/binding.h"

namespace lockstep::train {

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
