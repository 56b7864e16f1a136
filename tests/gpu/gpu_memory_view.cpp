#include "gpu/gpu_memory_view.h"

#include <stdexcept>
#include <string>
#include <utility>

namespace lockstep::comm {
namespace {

void must(cudaError_t result, const char* call) {
  if (result != cudaSuccess) throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(result));
}

/// Memory of the GPU for one operation on host memory.
class Copies {
 public:
  Copies(const Buffer& input, const Buffer& output, int device, cudaStream_t stream)
      : output_(output), device_(device), stream_(stream) {
    must(cudaSetDevice(device_), "cudaSetDevice");
    // One is a part of the other, or both are apart.
    const Buffer& whole = input.bytes() >= output.bytes() ? input : output;
    const Buffer& part = input.bytes() >= output.bytes() ? output : input;
    const auto* begin = static_cast<const char*>(whole.data);
    const auto* at = static_cast<const char*>(part.data);
    const bool inside = at >= begin && at < begin + whole.bytes();
    char* const on_gpu = allocate(0, whole);
    char* const part_on_gpu = inside ? on_gpu + (at - begin) : allocate(1, part);
    gpu_input_ = on_device(input, &whole == &input ? on_gpu : part_on_gpu);
    gpu_output_ = on_device(output, &whole == &output ? on_gpu : part_on_gpu);
  }
  ~Copies() {
    cudaSetDevice(device_);
    for (void* memory : memory_) cudaFree(memory);
  }
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  const Buffer& input() const { return gpu_input_; }
  const Buffer& output() const { return gpu_output_; }

  void copy_back() const {
    cudaSetDevice(device_);
    if (output_.bytes() == 0) return;
    must(cudaMemcpy(output_.data, gpu_output_.data, output_.bytes(), cudaMemcpyDefault), "cudaMemcpy");
  }

 private:
  char* allocate(int which, const Buffer& host) {
    must(cudaMalloc(&memory_[which], host.bytes() + 1), "cudaMalloc");
    if (host.bytes() > 0) {
      must(cudaMemcpyAsync(memory_[which], host.data, host.bytes(), cudaMemcpyDefault, stream_),
           "cudaMemcpyAsync");
    }
    return static_cast<char*>(memory_[which]);
  }

  Buffer on_device(Buffer buffer, char* data) const {
    buffer.data = data;
    buffer.device = DeviceKind::kCuda;
    buffer.stream = stream_;
    return buffer;
  }

  const Buffer output_;
  const int device_;
  const cudaStream_t stream_;
  void* memory_[2] = {nullptr, nullptr};
  Buffer gpu_input_;
  Buffer gpu_output_;
};

/// Copies back when somebody asks: asking earlier would take away the grouping of messages.
class MessageWork final : public Work {
 public:
  MessageWork(WorkPtr real, std::shared_ptr<Copies> copies, bool receives)
      : real_(std::move(real)), copies_(std::move(copies)), receives_(receives) {}

  bool test() override { return real_->test() && arrive(); }
  void wait(Duration timeout) override {
    real_->wait(timeout);
    arrive();
  }
  void wait() override {
    real_->wait();
    arrive();
  }
  int source() const override { return real_->source(); }
  void on_complete(std::function<void()> done) override {
    real_->on_complete([copies = copies_, receives = receives_, done = std::move(done)] {
      if (receives) copies->copy_back();
      done();
    });
  }

 private:
  bool arrive() {
    if (std::exchange(receives_, false)) copies_->copy_back();
    return true;
  }

  WorkPtr real_;
  std::shared_ptr<Copies> copies_;
  bool receives_;
};

}  // namespace

GpuMemoryView::GpuMemoryView(std::unique_ptr<Communicator> real, int device)
    : ForwardingCommunicator(*real), owned_(std::move(real)), device_(device) {
  must(cudaSetDevice(device_), "cudaSetDevice");
  must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}

GpuMemoryView::~GpuMemoryView() {
  owned_.reset();
  cudaStreamDestroy(stream_);
}

WorkPtr GpuMemoryView::issue(const Collective& collective) {
  if (collective.kind == Collective::Kind::kBarrier) return real_.issue(collective);
  const auto copies = std::make_shared<Copies>(collective.input, collective.output, device_, stream_);
  Collective on_gpu = collective;
  // The same buffer twice for a collective in place: Copies maps its input into its output.
  on_gpu.input = copies->input();
  on_gpu.output = copies->output();
  // Complete when the result is back in host memory, whether or not the caller keeps the Work.
  return followed_by(real_.issue(on_gpu), [copies] { copies->copy_back(); });
}

WorkPtr GpuMemoryView::post(const Message& message) {
  const auto copies = std::make_shared<Copies>(message.buffer, message.buffer, device_, stream_);
  Message on_gpu = message;
  on_gpu.buffer = copies->output();
  const bool receives = message.kind != Message::Kind::kSend;
  return std::make_unique<MessageWork>(real_.post(on_gpu), copies, receives);
}

std::unique_ptr<Communicator> GpuMemoryView::split(std::span<const int> ranks) {
  return view(real_.split(ranks));
}

std::unique_ptr<Communicator> GpuMemoryView::duplicate() {
  return view(real_.duplicate());
}

std::unique_ptr<Communicator> GpuMemoryView::view(std::unique_ptr<Communicator> part) const {
  return part ? std::make_unique<GpuMemoryView>(std::move(part), device_) : nullptr;
}

}  // namespace lockstep::comm
