#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/backend.h"
#include "lockstep/comm/store.h"

namespace lockstep::comm {
namespace {

constexpr size_t kPairCount = 50'000;

/// Two ranks as threads of this process, with a GPU each.
class NcclPairTest : public testing::Test {
 protected:
  void SetUp() override {
    int gpus = 0;
    const cudaError_t found = cudaGetDeviceCount(&gpus);
    if (found != cudaSuccess || gpus < 2) {
      GTEST_SKIP() << "two ranks need two GPUs, and there are " << (found == cudaSuccess ? gpus : 0);
    }
  }

  static void run(Duration timeout, const std::function<void(Communicator&)>& body) {
    HashStore store;
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      ranks.emplace_back([&, rank] {
        cudaSetDevice(rank);
        ConnectOptions options{.rank = rank, .size = 2, .store = &store, .timeout = timeout, .interface = ""};
        options.cuda_device = rank;
        try {
          const auto comm = connect("nccl", options);
          body(*comm);
        } catch (const std::exception& error) {
          ADD_FAILURE() << "rank " << rank << ": " << error.what();
        }
      });
    }
    for (std::thread& rank : ranks) rank.join();
  }
};

/// Floats of the current GPU, with a stream in which they are used.
class Values {
 public:
  Values() {
    EXPECT_EQ(cudaMalloc(&data_, kPairCount * sizeof(float)), cudaSuccess);
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  }
  ~Values() {
    cudaStreamDestroy(stream_);
    cudaFree(data_);
  }
  Values(const Values&) = delete;
  Values& operator=(const Values&) = delete;

  cudaStream_t stream() const { return stream_; }
  Buffer buffer() const { return {data_, kPairCount, DType::kFloat32, DeviceKind::kCuda, stream_}; }

  void set(float value) {
    host_.assign(kPairCount, value);
    EXPECT_EQ(
        cudaMemcpyAsync(data_, host_.data(), kPairCount * sizeof(float), cudaMemcpyHostToDevice, stream_),
        cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  }
  void expect(float value) {
    host_.resize(kPairCount);
    EXPECT_EQ(
        cudaMemcpyAsync(host_.data(), data_, kPairCount * sizeof(float), cudaMemcpyDeviceToHost, stream_),
        cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    EXPECT_EQ(host_, std::vector<float>(kPairCount, value));
  }

 private:
  void* data_ = nullptr;
  cudaStream_t stream_ = nullptr;
  std::vector<float> host_;
};

TEST_F(NcclPairTest, a_captured_step_reduces_over_both_at_every_launch) {
  run(Duration(20), [](Communicator& comm) {
    Values values;
    values.set(1);
    comm.all_reduce(values.buffer(), ReduceOp::kSum)->wait();
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t launchable = nullptr;
    ASSERT_EQ(cudaStreamBeginCapture(values.stream(), cudaStreamCaptureModeThreadLocal), cudaSuccess);
    comm.all_reduce(values.buffer(), ReduceOp::kSum)->wait_in_stream(values.stream());
    ASSERT_EQ(cudaStreamEndCapture(values.stream(), &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&launchable, graph, 0), cudaSuccess);
    values.set(float(comm.rank() + 1));
    for (int i = 0; i < 3; ++i) ASSERT_EQ(cudaGraphLaunch(launchable, values.stream()), cudaSuccess);
    values.expect(12);
    EXPECT_EQ(cudaGraphExecDestroy(launchable), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  });
}

TEST_F(NcclPairTest, memory_of_its_own_is_reduced_like_any_other) {
  run(Duration(20), [](Communicator& comm) {
    std::shared_ptr<void> memory = comm.allocate(kPairCount * sizeof(float));
    ASSERT_NE(memory, nullptr);
    std::vector<float> values(kPairCount, float(comm.rank() + 1));
    const size_t bytes = values.size() * sizeof(float);
    ASSERT_EQ(cudaMemcpy(memory.get(), values.data(), bytes, cudaMemcpyHostToDevice), cudaSuccess);
    comm.all_reduce({memory.get(), kPairCount, DType::kFloat32, DeviceKind::kCuda}, ReduceOp::kSum)->wait();
    ASSERT_EQ(cudaMemcpy(values.data(), memory.get(), bytes, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(values, std::vector<float>(kPairCount, 3));
    memory.reset();
  });
}

TEST_F(NcclPairTest, messages_that_need_each_other_are_issued_together) {
  run(Duration(20), [](Communicator& comm) {
    const int peer = 1 - comm.rank();
    Values in;
    Values out;
    for (const float round : {1.F, 2.F}) {
      out.set(10 * round + float(comm.rank()));
      const WorkPtr received = comm.receive(in.buffer(), peer, 0);
      const WorkPtr sent = comm.send(out.buffer(), peer, 0);
      received->wait();
      sent->wait();
      in.expect(10 * round + float(peer));
    }
  });
}

TEST_F(NcclPairTest, a_rank_that_stays_away_is_a_time_out_and_ends) {
  std::atomic<bool> over{false};
  run(Duration(2), [&](Communicator& comm) {
    if (comm.rank() == 1) {
      while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return;
    }
    Values values;
    values.set(1);
    const WorkPtr work = comm.all_reduce(values.buffer(), ReduceOp::kSum);
    EXPECT_FALSE(work->test());
    EXPECT_THROW(work->wait(Duration(0.2)), TimeoutError);
    EXPECT_THROW(work->test(), TimeoutError);
    EXPECT_THROW(comm.barrier(), TimeoutError);
    over = true;
  });
}

TEST_F(NcclPairTest, nobody_needs_to_wait_for_a_time_out_to_be_noticed) {
  std::atomic<bool> over{false};
  run(Duration(1), [&](Communicator& comm) {
    if (comm.rank() == 1) {
      while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return;
    }
    Values values;
    values.set(1);
    comm.all_reduce(values.buffer(), ReduceOp::kSum)->wait_in_stream(values.stream());
    // The stream goes on because the communicator was ended, not because its data came.
    EXPECT_EQ(cudaStreamSynchronize(values.stream()), cudaSuccess);
    EXPECT_THROW(comm.barrier(), TimeoutError);
    over = true;
  });
}

}  // namespace
}  // namespace lockstep::comm
