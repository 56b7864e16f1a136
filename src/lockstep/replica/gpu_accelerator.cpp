#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "lockstep/base/error.h"
#include "lockstep/replica/accelerator.h"
#include "lockstep/replica/own_stream.h"
#include "lockstep/replica/torch_cuda.h"
#include "lockstep/replica/torch_error.h"

namespace lockstep::replica {
namespace {

/// Events that are not in use. Creating an event costs more than recording one.
class EventPool {
 public:
  c10::Event take() {
    const std::lock_guard lock(mutex_);
    // With timestamps, which c10 events do not have by default.
    if (idle_.empty()) return {c10::DeviceType::CUDA, c10::EventFlag::BACKEND_DEFAULT};
    c10::Event event = std::move(idle_.back());
    idle_.pop_back();
    return event;
  }

  void give_back(c10::Event event) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(event));
  }

 private:
  std::mutex mutex_;
  std::vector<c10::Event> idle_;
};

class GpuMark final : public Accelerator::Mark {
 public:
  explicit GpuMark(std::shared_ptr<EventPool> pool) : event(pool->take()), pool_(std::move(pool)) {}
  ~GpuMark() override { pool_->give_back(std::move(event)); }
  GpuMark(const GpuMark&) = delete;
  GpuMark& operator=(const GpuMark&) = delete;

  c10::Event event;

 private:
  /// Shared, because marks may outlive the accelerator.
  std::shared_ptr<EventPool> pool_;
};

const c10::Event& event_of(const Accelerator::Mark& mark) {
  return static_cast<const GpuMark&>(mark).event;
}

/// Sets a flag for its lifetime.
class Meanwhile {
 public:
  explicit Meanwhile(std::atomic<bool>& flag) : flag_(flag) { flag_ = true; }
  ~Meanwhile() { flag_ = false; }
  Meanwhile(const Meanwhile&) = delete;
  Meanwhile& operator=(const Meanwhile&) = delete;

 private:
  std::atomic<bool>& flag_;
};

/// Makes the calling thread work in a stream for its lifetime.
class InStream {
 public:
  InStream(const c10::impl::VirtualGuardImpl& gpu, c10::Stream stream)
      : gpu_(gpu), device_(gpu_.exchangeDevice(stream.device())), before_(gpu_.exchangeStream(stream)) {}
  ~InStream() {
    gpu_.exchangeStream(before_);
    gpu_.uncheckedSetDevice(device_);
  }
  InStream(const InStream&) = delete;
  InStream& operator=(const InStream&) = delete;

 private:
  const c10::impl::VirtualGuardImpl& gpu_;
  c10::Device device_;
  c10::Stream before_;
};

class GpuAccelerator final : public Accelerator, public std::enable_shared_from_this<GpuAccelerator> {
 public:
  explicit GpuAccelerator(int index)
      : device_(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index)),
        gpu_(c10::DeviceType::CUDA),
        own_stream_(device_),
        stream_(own_stream_.get()),
        handle_(gpu_.getStreamNativeHandle(stream_)),
        events_(std::make_shared<EventPool>()) {}

  at::Device device() const override { return device_; }

  void enter_thread() override {
    with_plain_errors([&] {
      gpu_.setDevice(device_);
      gpu_.exchangeStream(stream_);
    });
  }

  void* stream() const override { return handle_; }

  MarkPtr mark() override {
    // The event would become part of the graph and could not be queried.
    if (recording_) {
      throw Error("what is recorded in a CUDA graph cannot be marked",
                  "Mark what comes before and after it.");
    }
    return with_plain_errors([&] {
      auto mark = std::make_shared<GpuMark>(events_);
      mark->event.record(stream_);
      return mark;
    });
  }

  void wait(const Mark& mark) override {
    with_plain_errors([&] { event_of(mark).synchronize(); });
  }

  double seconds_between(const Mark& from, const Mark& to) override {
    return with_plain_errors([&] { return event_of(from).elapsedTime(event_of(to)) / 1000; });
  }

  void synchronize() override {
    with_plain_errors([&] { gpu_.synchronizeDevice(device_.index()); });
  }

  at::Tensor pinned(at::IntArrayRef shape, at::ScalarType dtype) override {
    return with_plain_errors(
        [&] { return at::empty(shape, at::TensorOptions().dtype(dtype).pinned_memory(true)); });
  }

  std::unique_ptr<RecordedWork> record(const std::function<void()>& work) override;

  int64_t peak_memory_bytes() const override {
    return with_plain_errors([&] {
      constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
      const auto stats = allocator().getDeviceStats(device_.index());
      return std::max<int64_t>(stats.allocated_bytes[kAll].peak, launched_peak_bytes_);
    });
  }

  void reset_peak_memory() override {
    with_plain_errors([&] { allocator().resetPeakStats(device_.index()); });
    launched_peak_bytes_ = 0;
  }

  void release_unused_memory() override {
    with_plain_errors([&] { allocator().emptyCache(); });
  }

  /// Enqueues the graph. `peak_bytes`: the peak of its recording, which is what a launch uses.
  void launch(RecordedWork& graph, int64_t peak_bytes) {
    const InStream here(gpu_, stream_);
    graph.launch();
    launched_peak_bytes_ = std::max(launched_peak_bytes_.load(), peak_bytes);
  }

  /// Never throws: called by destructors. The next operation reports an error of the GPU.
  void wait_for_stream() noexcept {
    try {
      gpu_.synchronizeStream(stream_);
    } catch (const c10::Error&) {
    }
  }

 private:
  static c10::DeviceAllocator& allocator() { return *c10::getDeviceAllocator(c10::DeviceType::CUDA); }

  const c10::Device device_;
  const c10::impl::VirtualGuardImpl gpu_;
  const OwnStream own_stream_;
  const c10::Stream stream_;
  void* const handle_;
  const std::shared_ptr<EventPool> events_;
  std::atomic<bool> recording_ = false;
  std::atomic<int64_t> launched_peak_bytes_ = 0;
};

/// A graph, with the accelerator in whose stream it was recorded.
class RecordedGraph final : public RecordedWork {
 public:
  RecordedGraph(std::shared_ptr<GpuAccelerator> accelerator, std::unique_ptr<RecordedWork> graph,
                int64_t peak_bytes)
      : accelerator_(std::move(accelerator)), graph_(std::move(graph)), peak_bytes_(peak_bytes) {}
  ~RecordedGraph() override { accelerator_->wait_for_stream(); }
  RecordedGraph(const RecordedGraph&) = delete;
  RecordedGraph& operator=(const RecordedGraph&) = delete;

  void launch() override { accelerator_->launch(*graph_, peak_bytes_); }

 private:
  std::shared_ptr<GpuAccelerator> accelerator_;
  std::unique_ptr<RecordedWork> graph_;
  int64_t peak_bytes_;
};

std::unique_ptr<RecordedWork> GpuAccelerator::record(const std::function<void()>& work) {
  const CudaGraphPluginV1& plugin = open_cuda_graph();
  const InStream here(gpu_, stream_);
  // As torch.cuda.graph does: finish running work and release cached memory, because the graph's pool cannot
  // take memory from the cache during the recording.
  synchronize();
  release_unused_memory();
  // The allocator counts a graph's memory during the recording only; launches add it again.
  const int64_t peak_before = peak_memory_bytes();
  reset_peak_memory();
  std::unique_ptr<RecordedWork> graph;
  try {
    const Meanwhile recording(recording_);
    graph.reset(plugin.record(work));
  } catch (const c10::OutOfMemoryError& error) {
    throw_plain(error);
  } catch (const c10::Error& error) {
    throw Error(
        fmt::format("what is to be recorded in a CUDA graph fails: {}", error.what_without_backtrace()),
        "Leave out --cuda-graph.");
  }
  const int64_t peak = peak_memory_bytes();
  launched_peak_bytes_ = peak_before;
  return std::make_unique<RecordedGraph>(shared_from_this(), std::move(graph), peak);
}

}  // namespace

AcceleratorStatus accelerator_status() {
  try {
    const TorchCuda& cuda = torch_cuda();
    return {true, fmt::format("{} {}, {}", cuda.gpus, cuda.gpus == 1 ? "GPU" : "GPUs", cuda.versions), "",
            cuda.gpus};
  } catch (const Error& error) {
    return {false, error.what(), error.advice(), 0};
  } catch (const c10::Error& error) {
    return {false, error.what_without_backtrace(), "", 0};
  }
}

void require_recording() {
  open_cuda_graph();
}

std::shared_ptr<Accelerator> open_accelerator(int index) {
  const int count = torch_cuda().gpus;
  if (index < 0 || index >= count) {
    throw ConfigError(
        fmt::format("a rank is to use GPU {}, but this process sees {} (numbered from 0)", index, count),
        "start at most as many ranks on a host as it has GPUs");
  }
  return with_plain_errors([&] {
    at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
    return std::make_shared<GpuAccelerator>(index);
  });
}

}  // namespace lockstep::replica
