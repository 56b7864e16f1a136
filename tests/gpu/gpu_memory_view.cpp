#include "gpu/gpu_memory_view.h"

#include <stdexcept>
#include <string>
#include <utility>

#include "lockstep/comm/followed_work.h"

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

/// Complete when the result is back in host memory, whether or not anybody keeps this.
WorkPtr collective(WorkPtr real, const std::shared_ptr<Copies>& copies) {
  return followed_by(std::move(real), [copies] { copies->copy_back(); });
}

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

WorkPtr GpuMemoryView::all_reduce(const Buffer& buffer, ReduceOp op) {
  const auto copies = std::make_shared<Copies>(buffer, buffer, device_, stream_);
  return collective(real_.all_reduce(copies->output(), op), copies);
}

WorkPtr GpuMemoryView::reduce(const Buffer& buffer, ReduceOp op, int root) {
  const auto copies = std::make_shared<Copies>(buffer, buffer, device_, stream_);
  return collective(real_.reduce(copies->output(), op, root), copies);
}

WorkPtr GpuMemoryView::broadcast(const Buffer& buffer, int root) {
  const auto copies = std::make_shared<Copies>(buffer, buffer, device_, stream_);
  return collective(real_.broadcast(copies->output(), root), copies);
}

WorkPtr GpuMemoryView::all_gather(const Buffer& input, const Buffer& output) {
  const auto copies = std::make_shared<Copies>(input, output, device_, stream_);
  return collective(real_.all_gather(copies->input(), copies->output()), copies);
}

WorkPtr GpuMemoryView::reduce_scatter(const Buffer& input, const Buffer& output, ReduceOp op) {
  const auto copies = std::make_shared<Copies>(input, output, device_, stream_);
  return collective(real_.reduce_scatter(copies->input(), copies->output(), op), copies);
}

WorkPtr GpuMemoryView::all_to_all(const Buffer& input, const Buffer& output) {
  const auto copies = std::make_shared<Copies>(input, output, device_, stream_);
  return collective(real_.all_to_all(copies->input(), copies->output()), copies);
}

WorkPtr GpuMemoryView::send(const Buffer& buffer, int peer, int tag) {
  const auto copies = std::make_shared<Copies>(buffer, buffer, device_, stream_);
  return std::make_unique<MessageWork>(real_.send(copies->input(), peer, tag), copies, false);
}

WorkPtr GpuMemoryView::receive(const Buffer& buffer, int peer, int tag) {
  const auto copies = std::make_shared<Copies>(buffer, buffer, device_, stream_);
  return std::make_unique<MessageWork>(real_.receive(copies->output(), peer, tag), copies, true);
}

WorkPtr GpuMemoryView::receive_any(const Buffer& buffer, int tag) {
  const auto copies = std::make_shared<Copies>(buffer, buffer, device_, stream_);
  return std::make_unique<MessageWork>(real_.receive_any(copies->output(), tag), copies, true);
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
