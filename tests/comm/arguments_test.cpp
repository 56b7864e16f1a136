#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/store.h"

#include "comm/rank_world.h"
#include "comm/typed_values.h"

namespace lockstep::comm {
namespace {

/// Fails unless `call` throws ConfigError with `part` in its message.
template <typename Call>
void expect_refused(Call call, const std::string& part) {
  try {
    call();
    ADD_FAILURE() << "not refused: " << part;
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(ArgumentsTest, wrong_arguments_are_refused_with_their_values) {
  run_threads(2, test_timeout(), [](Communicator& comm) {
    std::vector<float> data(100);
    const auto part = [&](size_t first, size_t count) { return host_buffer(data.data() + first, count); };
    const Buffer none{nullptr, 3, DType::kFloat32};
    const Buffer on_gpu{data.data(), 3, DType::kFloat32, DeviceKind::kCuda};
    const Buffer doubles{data.data() + 50, 4, DType::kFloat64};
    const int peer = 1 - comm.rank();

    expect_refused([&] { comm.all_reduce(none, ReduceOp::kSum); }, "3 elements at a null address");
    expect_refused([&] { comm.all_reduce(on_gpu, ReduceOp::kSum); }, "CUDA");
    expect_refused([&] { comm.reduce(part(0, 4), ReduceOp::kSum, 2); }, "root 2 is not in [0, 2)");
    expect_refused([&] { comm.broadcast(part(0, 4), -1); }, "root -1");
    expect_refused([&] { comm.all_gather(part(0, 4), part(10, 9)); }, "9 elements, 2 x 4 expected");
    expect_refused([&] { comm.all_gather(part(0, 2), doubles); }, "input is fp32, output is fp64");
    expect_refused([&] { comm.all_gather(part(11, 4), part(10, 8)); }, "overlaps");
    expect_refused([&] { comm.reduce_scatter(part(0, 9), part(20, 4), ReduceOp::kSum); },
                   "9 elements, 2 x 4");
    expect_refused([&] { comm.reduce_scatter(part(0, 8), part(2, 4), ReduceOp::kSum); }, "overlaps");
    expect_refused([&] { comm.all_to_all(part(0, 5), part(10, 5)); }, "multiples of 2");
    expect_refused([&] { comm.all_to_all(part(0, 4), part(2, 4)); }, "overlaps");
    expect_refused([&] { comm.send(part(0, 1), 2, 0); }, "2 is not the number of another rank");
    expect_refused([&] { comm.send(part(0, 1), comm.rank(), 0); }, "another rank");
    expect_refused([&] { comm.receive(part(0, 1), peer, 1 << 20); }, "tag 1048576");
    expect_refused([&] { comm.receive_any(part(0, 1), -1); }, "tag -1");
    expect_refused([&] { comm.split(std::vector{1, 0}); }, "[1, 0]");
    expect_refused([&] { comm.split(std::vector{0, 0}); }, "[0, 0]");
    expect_refused([&] { comm.split(std::vector{0, 2}); }, "[0, 2]");
    expect_refused([&] { comm.split({}); }, "[]");

    // A refused call has no effect: the communicator still works.
    data[0] = 1;
    comm.all_reduce(part(0, 1), ReduceOp::kSum)->wait();
    EXPECT_EQ(data[0], 2);
  });
}

TEST(ArgumentsTest, a_single_rank_checks_the_same) {
  run_threads(1, test_timeout(), [](Communicator& comm) {
    std::vector<float> data(10);
    expect_refused([&] { comm.broadcast(host_buffer(data.data(), 1), 1); }, "root 1");
    expect_refused([&] { comm.send(host_buffer(data.data(), 1), 0, 0); }, "another rank");
    expect_refused([&] { comm.split(std::vector{1}); }, "[1]");
    comm.barrier()->wait();
  });
}

TEST(ArgumentsTest, connecting_wrongly_is_refused) {
  HashStore store;
  const ConnectOptions good{
      .rank = 0, .size = 2, .store = &store, .timeout = Duration(0.05), .interface = ""};
  ConnectOptions options = good;
  expect_refused([&] { connect("glo", options); }, "gloo");
  expect_refused([&] { backend_status("ncll"); }, "nccl");
  options.rank = 2;
  expect_refused([&] { connect("thread", options); }, "rank 2 of 2");
  options = good;
  options.size = 0;
  expect_refused([&] { connect("thread", options); }, "of 0");
  options = good;
  options.timeout = Duration(0);
  expect_refused([&] { connect("thread", options); }, "time-out of 0");
  options = good;
  options.store = nullptr;
  expect_refused([&] { connect("thread", options); }, "store");
}

}  // namespace
}  // namespace lockstep::comm
