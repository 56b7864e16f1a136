#include "train/host_accelerator.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <ATen/ops/full.h>

#include "lockstep/base/clock.h"

namespace lockstep::test {
namespace {

struct HostMark final : replica::Accelerator::Mark {
  /// 0: not reached.
  double at_s = 0;
};

const HostMark& host_mark(const replica::Accelerator::Mark& mark) {
  return dynamic_cast<const HostMark&>(mark);
}

class Repeated final : public replica::RecordedWork {
 public:
  explicit Repeated(std::function<void()> work) : work_(std::move(work)) {}
  void launch() override { work_(); }

 private:
  std::function<void()> work_;
};

}  // namespace

HostAccelerator::HostAccelerator() : thread_([this] { work(); }) {}

HostAccelerator::~HostAccelerator() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void HostAccelerator::busy(double seconds) {
  put([seconds] { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); });
}

size_t HostAccelerator::most_marks() const {
  const std::lock_guard lock(mutex_);
  return most_marks_;
}

replica::Accelerator::MarkPtr HostAccelerator::mark() {
  auto mark = std::make_shared<HostMark>();
  {
    const std::lock_guard lock(mutex_);
    most_marks_ = std::max(most_marks_, ++marks_);
  }
  put([this, mark] {
    const std::lock_guard lock(mutex_);
    mark->at_s = now_s();
    --marks_;
  });
  return mark;
}

void HostAccelerator::wait(const Mark& mark) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return host_mark(mark).at_s > 0; });
}

double HostAccelerator::seconds_between(const Mark& from, const Mark& to) {
  const std::lock_guard lock(mutex_);
  ++times_asked_;
  return host_mark(to).at_s - host_mark(from).at_s;
}

void HostAccelerator::synchronize() {
  wait(*mark());
}

at::Tensor HostAccelerator::pinned(at::IntArrayRef shape, at::ScalarType dtype) {
  // New memory holds anything.
  return at::full(shape, 77, dtype);
}

std::unique_ptr<replica::RecordedWork> HostAccelerator::record(const std::function<void()>& work) {
  ++recordings_;
  return std::make_unique<Repeated>(work);
}

void HostAccelerator::put(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  changed_.notify_all();
}

void HostAccelerator::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
    changed_.notify_all();
  }
}

}  // namespace lockstep::test
