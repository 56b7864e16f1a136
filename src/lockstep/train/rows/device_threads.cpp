#include "lockstep/train/rows/device_threads.h"

#include <utility>

#include <ATen/Parallel.h>

#include "lockstep/launch/binding.h"

namespace lockstep::train {

DeviceThreads::DeviceThreads(int devices, const std::vector<std::vector<int>>& cpus)
    : errors_(static_cast<size_t>(devices)) {
  const int threads = at::get_num_threads();
  for (int device = 1; device < devices; ++device) {
    const auto index = static_cast<size_t>(device);
    const std::vector<int> own = index < cpus.size() ? cpus[index] : std::vector<int>();
    threads_.emplace_back([this, device, own, threads] { work(device, own, threads); });
  }
}

DeviceThreads::~DeviceThreads() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

void DeviceThreads::run(const std::function<void(int device)>& body) {
  {
    const std::lock_guard lock(mutex_);
    body_ = &body;
    busy_ = static_cast<int>(threads_.size());
    ++round_;
    changed_.notify_all();
  }
  run_one(0);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return busy_ == 0; });
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
  for (uint64_t done = 0;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || round_ > done; });
      if (stopping_) return;
      done = round_;
    }
    if (unbound) {
      errors_[static_cast<size_t>(device)] = unbound;
    } else {
      run_one(device);
    }
    const std::lock_guard lock(mutex_);
    if (--busy_ == 0) changed_.notify_all();
  }
}

}  // namespace lockstep::train
