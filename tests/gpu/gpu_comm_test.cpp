#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/backend.h"

namespace lockstep::comm {
namespace {

constexpr size_t kCount = 100'000;

void must(cudaError_t result) {
  ASSERT_EQ(result, cudaSuccess) << cudaGetErrorString(result);
}

/// Holds a stream up until it is opened, at the latest after ten seconds.
class Gate {
 public:
  ~Gate() { open(); }

  void hold(cudaStream_t stream) { must(cudaLaunchHostFunc(stream, &Gate::wait_here, this)); }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  static void wait_here(void* gate) { static_cast<Gate*>(gate)->wait(); }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(10), [this] { return open_; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

class Stream {
 public:
  Stream() { must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~Stream() { cudaStreamDestroy(stream_); }
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Bytes of the GPU's memory.
class Bytes {
 public:
  Bytes() { must(cudaMalloc(&data_, kCount)); }
  ~Bytes() { cudaFree(data_); }

  Buffer in(cudaStream_t stream) const { return {data_, kCount, DType::kUInt8, DeviceKind::kCuda, stream}; }
  void fill(int value, cudaStream_t stream) const { must(cudaMemsetAsync(data_, value, kCount, stream)); }
  /// In `stream`, and then here.
  std::vector<uint8_t> read(cudaStream_t stream) const {
    std::vector<uint8_t> values(kCount);
    must(cudaMemcpyAsync(values.data(), data_, kCount, cudaMemcpyDeviceToHost, stream));
    must(cudaStreamSynchronize(stream));
    return values;
  }

 private:
  void* data_ = nullptr;
};

std::vector<uint8_t> all(int value) {
  return std::vector<uint8_t>(kCount, uint8_t(value));
}

/// One rank: what it gathers is a copy, in the communicator's stream.
class GpuCommTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    int gpus = 0;
    const cudaError_t found = cudaGetDeviceCount(&gpus);
    if (found != cudaSuccess || gpus == 0) GTEST_SKIP() << "no GPU: " << cudaGetErrorString(found);
    must(cudaSetDevice(0));
    gpus_ = gpus;
  }

  std::unique_ptr<Communicator> connect_alone(const char* backend) {
    ConnectOptions options;
    options.timeout = Duration(10);
    options.cuda_device = 0;
    return connect(backend, options);
  }

  int gpus_ = 0;
};

TEST_P(GpuCommTest, an_operation_comes_after_what_its_stream_holds_and_not_after_more) {
  const auto comm = connect_alone(GetParam());
  const Bytes input;
  const Bytes output;
  const Stream stream;
  Gate computed;
  Gate later;
  input.fill(1, stream);
  output.fill(2, stream);
  computed.hold(stream);
  input.fill(3, stream);
  const WorkPtr work = comm->all_gather(input.in(stream), output.in(stream));
  later.hold(stream);
  EXPECT_FALSE(work->test());
  computed.open();
  work->wait();
  EXPECT_TRUE(work->test());
  const Stream other;
  EXPECT_EQ(output.read(other), all(3));
}

TEST_P(GpuCommTest, a_stream_waits_for_an_operation) {
  const auto comm = connect_alone(GetParam());
  const Bytes input;
  const Bytes output;
  const Stream stream;
  const Stream consumer;
  input.fill(5, stream);
  output.fill(0, stream);
  must(cudaStreamSynchronize(stream));
  const WorkPtr work = comm->all_gather(input.in(stream), output.in(stream));
  work->wait_in_stream(consumer);
  EXPECT_EQ(output.read(consumer), all(5));
}

INSTANTIATE_TEST_SUITE_P(Backends, GpuCommTest, testing::Values("nccl", "gloo", "thread"),
                         [](const auto& name) { return std::string(name.param); });

class NcclTest : public GpuCommTest {};

TEST_F(NcclTest, the_host_does_not_wait_where_a_stream_does) {
  const auto comm = connect_alone("nccl");
  const Bytes input;
  const Bytes output;
  const Stream stream;
  const Stream consumer;
  Gate computed;
  output.fill(0, stream);
  computed.hold(stream);
  input.fill(6, stream);
  const WorkPtr work = comm->all_gather(input.in(stream), output.in(stream));
  work->wait_in_stream(consumer);
  EXPECT_EQ(cudaStreamQuery(consumer), cudaErrorNotReady);
  computed.open();
  EXPECT_EQ(output.read(consumer), all(6));
}

TEST_F(NcclTest, host_memory_is_refused) {
  const auto comm = connect_alone("nccl");
  float value = 1;
  try {
    comm->all_reduce(host_buffer(&value, 1), ReduceOp::kSum);
    ADD_FAILURE() << "not refused";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("takes CUDA memory only"), std::string::npos) << error.what();
  }
  comm->barrier()->wait();
}

TEST_F(NcclTest, receive_any_is_refused) {
  const auto comm = connect_alone("nccl");
  EXPECT_FALSE(comm->capabilities().receive_any);
  const Bytes bytes;
  EXPECT_THROW(comm->receive_any(bytes.in(nullptr), 0), ConfigError);
}

TEST_F(NcclTest, a_captured_operation_is_carried_out_by_every_launch_of_its_graph) {
  const auto comm = connect_alone("nccl");
  const Bytes input;
  const Bytes middle;
  const Bytes output;
  const Stream stream;
  comm->all_gather(input.in(stream), middle.in(stream))->wait();

  cudaGraph_t graph = nullptr;
  must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  const WorkPtr first = comm->all_gather(input.in(stream), middle.in(stream));
  first->wait_in_stream(stream);
  const WorkPtr second = comm->all_gather(middle.in(stream), output.in(stream));
  EXPECT_THROW(second->test(), ConfigError);
  EXPECT_THROW(second->wait(), ConfigError);
  EXPECT_THROW(comm->barrier(), ConfigError);
  second->wait_in_stream(stream);
  must(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t launchable = nullptr;
  must(cudaGraphInstantiate(&launchable, graph, 0));

  for (const int value : {7, 8}) {
    input.fill(value, stream);
    output.fill(0, stream);
    must(cudaGraphLaunch(launchable, stream));
    EXPECT_EQ(output.read(stream), all(value));
  }
  // Beside the graph everything goes on as before.
  input.fill(9, stream);
  comm->all_gather(input.in(stream), output.in(stream))->wait();
  EXPECT_EQ(output.read(stream), all(9));
  // Before the communicator, which waits for the graphs that hold operations of it.
  must(cudaGraphExecDestroy(launchable));
  must(cudaGraphDestroy(graph));
}

TEST_F(NcclTest, a_capture_elsewhere_does_not_disturb_what_is_on_its_way) {
  const auto comm = connect_alone("nccl");
  const Bytes input;
  const Bytes output;
  const Stream stream;
  const Stream captured;
  Gate computed;
  computed.hold(stream);
  input.fill(4, stream);
  const WorkPtr work = comm->all_gather(input.in(stream), output.in(stream));
  cudaGraph_t graph = nullptr;
  must(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal));
  const Bytes* const unused = &input;
  unused->fill(4, captured);
  // The watch asks for the operation meanwhile.
  std::this_thread::sleep_for(std::chrono::milliseconds(120));
  must(cudaStreamEndCapture(captured, &graph));
  must(cudaGraphDestroy(graph));
  computed.open();
  work->wait();
  EXPECT_EQ(output.read(stream), all(4));
}

TEST_F(NcclTest, a_time_out_is_final) {
  const auto comm = connect_alone("nccl");
  const Bytes bytes;
  const Stream stream;
  Gate never;
  never.hold(stream);
  const WorkPtr work = comm->all_gather(bytes.in(stream), bytes.in(stream));
  EXPECT_THROW(work->wait(Duration(0.05)), TimeoutError);
  EXPECT_THROW(comm->barrier(), TimeoutError);
  never.open();
}

TEST_F(NcclTest, a_gpu_that_is_not_there_is_refused) {
  ConnectOptions options;
  options.cuda_device = gpus_;
  try {
    connect("nccl", options);
    ADD_FAILURE() << "not refused";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("but this process sees " + std::to_string(gpus_)),
              std::string::npos)
        << error.what();
  }
}

class StagedGpuTest : public GpuCommTest {};

TEST_F(StagedGpuTest, staging_cannot_be_captured) {
  const auto comm = connect_alone("gloo");
  const Bytes bytes;
  const Stream stream;
  cudaGraph_t graph = nullptr;
  must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  EXPECT_THROW(comm->all_reduce(bytes.in(stream), ReduceOp::kSum), ConfigError);
  must(cudaStreamEndCapture(stream, &graph));
  if (graph != nullptr) must(cudaGraphDestroy(graph));
}

}  // namespace
}  // namespace lockstep::comm
