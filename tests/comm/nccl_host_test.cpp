#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/comm/nccl/nccl_link.h"
#include "lockstep/comm/plugin.h"

#include "comm/nccl_stub.h"

extern "C" const lockstep::comm::BackendPlugin* lockstep_backend_plugin();

namespace lockstep::comm {
namespace {

using test::nccl_stub;

/// The nccl backend without a GPU.
class NcclHostTest : public testing::Test {
 protected:
  NcclHostTest() { test::reset_nccl_stub(); }

  static std::unique_ptr<Communicator> connect_alone(double timeout_s = 20) {
    ConnectOptions options;
    options.timeout = Duration(timeout_s);
    options.cuda_device = 0;
    return std::unique_ptr<Communicator>(lockstep_backend_plugin()->connect(options));
  }

  Buffer buffer() { return {values_.data(), values_.size(), DType::kFloat32, DeviceKind::kCuda, this}; }

  std::vector<float> values_ = std::vector<float>(100);
};

TEST_F(NcclHostTest, operations_are_put_into_the_stream_by_the_thread_that_issues_them) {
  const auto comm = connect_alone();
  EXPECT_EQ(nccl_stub().blocking, 1);
  for (int i = 0; i < 20; ++i) comm->all_reduce(buffer(), ReduceOp::kSum)->wait_in_stream(this);
  comm->all_reduce(buffer(), ReduceOp::kSum)->wait();
  // And a barrier of the connection's own.
  EXPECT_EQ(nccl_stub().operations, 22);
  EXPECT_EQ(nccl_stub().operations_on_other_threads, 0);
}

TEST_F(NcclHostTest, a_call_that_waits_for_others_ends_when_its_time_is_up) {
  const auto comm = connect_alone(1);
  nccl_stub().operations_hang = true;
  const double begin_s = now_s();
  EXPECT_THROW(comm->all_reduce(buffer(), ReduceOp::kSum), TimeoutError);
  EXPECT_GE(now_s() - begin_s, 1);
  EXPECT_THROW(comm->all_reduce(buffer(), ReduceOp::kSum), TimeoutError);
  EXPECT_EQ(nccl_stub().operations, 2);
}

TEST_F(NcclHostTest, a_captured_call_that_waits_for_others_ends_too) {
  const auto comm = connect_alone(1);
  nccl_stub().operations_hang = true;
  nccl_stub().capturing = true;
  EXPECT_THROW(comm->all_reduce(buffer(), ReduceOp::kSum), TimeoutError);
  nccl_stub().capturing = false;
}

TEST_F(NcclHostTest, what_was_captured_is_not_waited_for) {
  auto comm = connect_alone(1);
  nccl_stub().gpu_hangs = true;
  nccl_stub().capturing = true;
  comm->all_reduce(buffer(), ReduceOp::kSum)->wait_in_stream(this);
  nccl_stub().capturing = false;
  nccl_stub().gpu_hangs = false;
  std::this_thread::sleep_for(std::chrono::milliseconds(1300));
  comm->all_reduce(buffer(), ReduceOp::kSum)->wait();
  comm.reset();
  EXPECT_EQ(nccl_stub().aborted, 0);
  EXPECT_EQ(nccl_stub().destroyed, 1);
}

TEST_F(NcclHostTest, an_operation_that_the_gpu_does_not_finish_fails_and_ends_the_communicator) {
  const auto comm = connect_alone(1);
  nccl_stub().gpu_hangs = true;
  const WorkPtr work = comm->all_reduce(buffer(), ReduceOp::kSum);
  EXPECT_THROW(work->wait(Duration(10)), TimeoutError);
  EXPECT_THROW(comm->barrier(), TimeoutError);
  EXPECT_LE(nccl_stub().aborted, 1);
}

TEST_F(NcclHostTest, ranks_that_do_not_join_are_not_waited_for) {
  nccl_stub().joining_hangs = true;
  const double begin_s = now_s();
  EXPECT_THROW(connect_alone(1), TimeoutError);
  EXPECT_LT(now_s() - begin_s, 10);
  nccl_stub().joining_hangs = false;
}

TEST_F(NcclHostTest, a_split_makes_a_communicator_and_is_not_waited_for_either) {
  const auto comm = connect_alone(1);
  auto other = comm->duplicate();
  other->all_reduce(buffer(), ReduceOp::kSum)->wait();
  other.reset();
  EXPECT_EQ(nccl_stub().communicators, 2);
  EXPECT_EQ(nccl_stub().destroyed, 1);
  nccl_stub().operations_hang = true;
  EXPECT_THROW(comm->duplicate(), TimeoutError);
}

TEST_F(NcclHostTest, memory_of_its_own_is_registered_and_released) {
  // For one rank nothing is transferred.
  EXPECT_EQ(connect_alone()->allocate(1000), nullptr);
  const auto link = NcclLink::join({}, 0, 2, 0, deadline_after(Duration(20)));
  std::shared_ptr<void> memory = link->allocate(1000);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(nccl_stub().allocated_bytes, 1000u);
  EXPECT_EQ(nccl_stub().registered, 1);
  memory.reset();
  EXPECT_EQ(nccl_stub().deregistered, 1);
  EXPECT_EQ(nccl_stub().freed, 1);
  // A communicator that has ended may hang on the GPU: what it had is left behind.
  memory = link->allocate(1000);
  link->abort();
  memory.reset();
  EXPECT_EQ(nccl_stub().freed, 1);
}

TEST_F(NcclHostTest, the_order_of_launches_is_asked_for_when_the_plugin_is_opened) {
  lockstep_backend_plugin();
  EXPECT_STREQ(std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT"), "1");
}

}  // namespace
}  // namespace lockstep::comm
