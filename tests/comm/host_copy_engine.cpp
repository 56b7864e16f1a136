#include "comm/host_copy_engine.h"

#include <cstring>

namespace lockstep::comm {
namespace {

class HostMark final : public CopyEngine::Mark {
 public:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool reached = false;

    void reach() {
      const std::lock_guard lock(mutex);
      reached = true;
      changed.notify_all();
    }
    void wait() {
      std::unique_lock lock(mutex);
      changed.wait(lock, [this] { return reached; });
    }
  };

  const std::shared_ptr<State> state = std::make_shared<State>();
};

const HostMark& host_mark(const CopyEngine::Mark& mark) {
  return dynamic_cast<const HostMark&>(mark);
}

CopyEngine::MarkPtr mark_in(HostStream& stream) {
  auto mark = std::make_shared<HostMark>();
  stream.run([state = mark->state] { state->reach(); });
  return mark;
}

}  // namespace

HostStream::HostStream() : thread_([this] { work(); }) {}

HostStream::~HostStream() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void HostStream::run(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  changed_.notify_all();
}

void HostStream::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

std::shared_ptr<std::byte> HostCopyEngine::host_memory(size_t bytes) {
  return {new std::byte[bytes], std::default_delete<std::byte[]>()};
}

CopyEngine::MarkPtr HostCopyEngine::mark_stream(void* stream) {
  if (stream != nullptr) return mark_in(*static_cast<HostStream*>(stream));
  auto mark = std::make_shared<HostMark>();
  mark->state->reach();
  return mark;
}

CopyEngine::MarkPtr HostCopyEngine::mark_lane(Lane which) {
  return mark_in(lane(which));
}

void HostCopyEngine::hold_lane(Lane which, const Mark& mark) {
  lane(which).run([state = host_mark(mark).state] { state->wait(); });
}

void HostCopyEngine::copy(Lane which, void* to, size_t to_pitch_bytes, const void* from,
                          size_t from_pitch_bytes, size_t row_bytes, size_t rows) {
  lane(which).run([=] {
    for (size_t row = 0; row < rows && row_bytes > 0; ++row) {
      std::memcpy(static_cast<char*>(to) + row * to_pitch_bytes,
                  static_cast<const char*>(from) + row * from_pitch_bytes, row_bytes);
    }
  });
}

void HostCopyEngine::wait(const Mark& mark) {
  host_mark(mark).state->wait();
}

bool HostCopyEngine::reached(const Mark& mark) {
  const auto& state = host_mark(mark).state;
  const std::lock_guard lock(state->mutex);
  return state->reached;
}

}  // namespace lockstep::comm
