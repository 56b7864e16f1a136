#include "lockstep/base/error.h"
#include "lockstep/comm/cuda/cuda_check.h"
#include "lockstep/comm/staging/copy_engine.h"

namespace lockstep::comm {
namespace {

class CudaMark final : public CopyEngine::Mark {
 public:
  explicit CudaMark(int device) : event(device) {}

  CudaEvent event;
};

const CudaEvent& event_of(const CopyEngine::Mark& mark) {
  return static_cast<const CudaMark&>(mark).event;
}

/// Called from the communicator's threads, none of which has chosen a GPU, so every call chooses it.
class CudaCopyEngine final : public CopyEngine {
 public:
  explicit CudaCopyEngine(int device) : device_(device) {
    enter_gpu(device_);
    for (cudaStream_t& stream : lanes_) {
      check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    }
  }

  ~CudaCopyEngine() override {
    // Unchecked: a destructor cannot report it, and the GPU may have failed before.
    cudaSetDevice(device_);
    for (cudaStream_t stream : lanes_) cudaStreamDestroy(stream);
  }

  std::shared_ptr<std::byte> host_memory(size_t bytes) override {
    const CaptureExempt exempt;
    enter_gpu(device_);
    // Portable: pinned for every GPU, whichever is current in the thread that copies.
    void* memory = nullptr;
    check_cuda(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable), "cudaHostAlloc");
    return {static_cast<std::byte*>(memory), [device = device_](std::byte* address) {
              cudaSetDevice(device);
              cudaFreeHost(address);
            }};
  }

  MarkPtr mark_stream(void* stream) override {
    enter_gpu(device_);
    auto* const queue = static_cast<cudaStream_t>(stream);
    if (is_capturing(queue)) {
      throw ConfigError("memory that is staged through the host cannot take part in a CUDA graph",
                        "leave out --cuda-graph, or use the nccl backend");
    }
    return mark(queue);
  }

  MarkPtr mark_lane(Lane lane) override { return mark(stream_of(lane)); }

  void hold_lane(Lane lane, const Mark& mark) override {
    enter_gpu(device_);
    event_of(mark).hold(stream_of(lane));
  }

  void copy(Lane lane, void* to, size_t to_pitch_bytes, const void* from, size_t from_pitch_bytes,
            size_t row_bytes, size_t rows) override {
    // An empty table may have no address, which CUDA would refuse.
    if (row_bytes == 0) return;
    enter_gpu(device_);
    // Row by row: there are at most as many as ranks, and CUDA limits the pitch of a copy of many.
    for (size_t row = 0; row < rows; ++row) {
      check_cuda(cudaMemcpyAsync(static_cast<char*>(to) + row * to_pitch_bytes,
                                 static_cast<const char*>(from) + row * from_pitch_bytes, row_bytes,
                                 cudaMemcpyDefault, stream_of(lane)),
                 "cudaMemcpyAsync");
    }
  }

  void wait(const Mark& mark) override {
    enter_gpu(device_);
    event_of(mark).wait();
  }
  bool reached(const Mark& mark) override {
    enter_gpu(device_);
    return event_of(mark).reached();
  }

 private:
  cudaStream_t stream_of(Lane lane) const { return lanes_[lane == Lane::kOut ? 0 : 1]; }

  MarkPtr mark(cudaStream_t stream) const {
    auto mark = std::make_shared<CudaMark>(device_);
    mark->event.record(stream);
    return mark;
  }

  const int device_;
  cudaStream_t lanes_[2] = {nullptr, nullptr};
};

/// A stream for each lane. Throws BackendMissing, ConfigError for a number that no GPU has, CommError.
CopyEngine* open_cuda_copy_engine(int device) {
  check_gpu(device, "staging");
  return new CudaCopyEngine(device);
}

constexpr CopyEnginePluginV1 kPlugin = {kCopyEnginePluginAbiVersion, open_cuda_copy_engine};

}  // namespace
}  // namespace lockstep::comm

extern "C" [[gnu::visibility("default")]] const lockstep::comm::CopyEnginePluginV1*
lockstep_copy_engine_plugin() {
  return &lockstep::comm::kPlugin;
}
