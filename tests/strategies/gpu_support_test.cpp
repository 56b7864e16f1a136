#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ops/full.h>

#include "lockstep/strategies/strategy.h"
#include "lockstep/strategies/tensor_buffer.h"

#include "strategies/recording_communicator.h"
#include "strategies/trained_replica.h"

namespace lockstep::strategies {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

/// The refusal of a use, advice included; empty where it is possible.
std::string obstacle(const std::string& strategy, const StrategyOptions& options, const GpuUse& use) {
  const std::optional<ConfigError> why_not = why_not_on_gpu(strategy, options, use);
  return why_not ? std::string(why_not->what()) + " " + why_not->advice() : "";
}

TEST(WhyNotOnGpuTest, ddp_is_refused_where_ranks_of_one_process_share_a_gpu) {
  const GpuUse threads{.backend = "gloo", .ranks = 2, .are_threads = true, .share_gpus = true};
  EXPECT_THAT(obstacle("ddp", {}, threads), HasSubstr("--launch processes"));
  EXPECT_THAT(obstacle("ddp", {}, {.backend = "gloo", .ranks = 2, .share_gpus = true}), IsEmpty());
  EXPECT_THAT(obstacle("ddp", {}, {.backend = "gloo", .ranks = 2, .are_threads = true}), IsEmpty());
  EXPECT_THAT(obstacle("ddp", {}, {.backend = "gloo", .are_threads = true, .share_gpus = true}), IsEmpty());
  EXPECT_THAT(obstacle("replicated", {}, threads), IsEmpty());
}

TEST(WhyNotOnGpuTest, data_parallel_needs_a_gpu_for_every_device) {
  EXPECT_THAT(obstacle("data_parallel", {}, {.backend = "gloo", .ranks = 2, .share_gpus = true}),
              HasSubstr("a GPU for every rank"));
  EXPECT_THAT(obstacle("data_parallel", {}, {.backend = "gloo", .ranks = 2}), IsEmpty());
  EXPECT_THAT(obstacle("data_parallel", {}, {.backend = "gloo", .share_gpus = true}), IsEmpty());
}

TEST(WhyNotOnGpuTest, what_waits_for_whoever_is_ready_is_refused_over_nccl) {
  const StrategyOptions async{.consistency = Consistency::kAsync};
  EXPECT_THAT(obstacle("parameter_server", async, {.backend = "nccl", .ranks = 2}),
              HasSubstr("--consistency sync"));
  EXPECT_THAT(obstacle("parameter_server", async, {.backend = "gloo", .ranks = 2}), IsEmpty());
  EXPECT_THAT(obstacle("parameter_server", {}, {.backend = "nccl", .ranks = 2}), IsEmpty());
}

TEST(WhyNotOnGpuTest, work_of_the_host_is_refused) {
  StrategyOptions low_rank;
  low_rank.powersgd = 4;
  EXPECT_THAT(obstacle("ddp", low_rank, {.backend = "nccl", .ranks = 2}), HasSubstr("--wire powersgd:4"));
  EXPECT_THAT(obstacle("ddp", low_rank, {.backend = "gloo", .ranks = 2}), IsEmpty());
  StrategyOptions norm;
  norm.sync_batch_norm = true;
  EXPECT_THAT(obstacle("ddp", norm, {.backend = "gloo", .ranks = 2}), HasSubstr("--sync-batch-norm"));
}

TEST(RecordableTest, depends_on_strategy_and_options) {
  const auto why_not = [](const std::string& strategy, const StrategyOptions& options = {}) {
    return registry().get(strategy).traits(options).not_recordable;
  };
  for (const char* strategy : {"single", "independent", "ddp", "replicated", "sharded", "parameter_server"}) {
    EXPECT_THAT(why_not(strategy), IsEmpty()) << strategy;
  }
  for (const char* strategy : {"bsp", "horovod", "local_sgd", "data_parallel"})
    EXPECT_NE(why_not(strategy), "") << strategy;
  EXPECT_THAT(why_not("parameter_server", {.parameter_device = ParameterDevice::kCpu}), HasSubstr("host"));
  EXPECT_THAT(why_not("parameter_server", {.consistency = Consistency::kAsync}), HasSubstr("arrive"));
}

TEST(RecordableTest, the_reducer_needs_more_steps_before) {
  EXPECT_EQ(registry().get("ddp").traits({}).steps_before_recording, 11);
  EXPECT_EQ(registry().get("replicated").traits({}).steps_before_recording, 3);
}

/// Traffic of a strategy over the ranks' communicator, and over the one that is for host memory.
struct GpuTraffic {
  std::vector<test::Call> data, control, data_split, control_split;
};

GpuTraffic traffic_of(const std::string& strategy, const StrategyOptions& options) {
  GpuTraffic traffic;
  test::with_thread_ranks(2, [&](comm::Communicator& group) {
    const std::unique_ptr<comm::Communicator> other = group.duplicate();
    test::RecordingCommunicator data(group), control(*other);
    test::TrainedReplica replica = test::make_replica(
        {.model = "mlp", .strategy = strategy, .strategy_options = options, .control = &control}, &data);
    replica.train(3);
    if (group.rank() == 0) {
      traffic = {data.calls(), control.calls(), data.split_calls(), control.split_calls()};
    }
    replica.strategy.reset();
  });
  return traffic;
}

std::map<std::string, int> count_by_name(const std::vector<test::Call>& calls) {
  std::map<std::string, int> counts;
  for (const test::Call& call : calls) ++counts[call.name];
  return counts;
}

TEST(ControlTest, an_order_is_agreed_on_over_the_communicator_for_host_memory) {
  const GpuTraffic traffic = traffic_of("replicated", {});
  EXPECT_EQ(count_by_name(traffic.control)["broadcast"], 1);
  // The first values.
  EXPECT_EQ(count_by_name(traffic.data)["broadcast"], 1);
}

TEST(ControlTest, a_negotiation_goes_over_the_communicator_for_host_memory) {
  const GpuTraffic traffic = traffic_of("horovod", {});
  EXPECT_THAT(traffic.data_split, IsEmpty());
  EXPECT_GE(count_by_name(traffic.control_split)["all_reduce"], 3);
  EXPECT_GE(count_by_name(traffic.data)["all_reduce"], 3);
}

TEST(ControlTest, barriers_and_copies_in_host_memory_do_too) {
  const GpuTraffic direct = traffic_of("bsp", {});
  EXPECT_GE(count_by_name(direct.control)["barrier"], 3);
  EXPECT_EQ(count_by_name(direct.data)["barrier"], 0);
  EXPECT_EQ(count_by_name(direct.control)["all_reduce"], 0);
  EXPECT_GT(count_by_name(direct.data)["all_reduce"], 0);
  const GpuTraffic copied = traffic_of("bsp", {.exchange = Exchange::kAr});
  EXPECT_GT(count_by_name(copied.control)["all_reduce"], 0);
  EXPECT_EQ(count_by_name(copied.data)["all_reduce"], 0);
}

TEST(WireAllReduceTest, what_is_waited_for_in_a_stream_is_widened_too) {
  test::with_thread_ranks(3, [&](comm::Communicator& group) {
    const at::Tensor values = at::full({100}, 0.5 + group.rank());
    const comm::WorkPtr work = WireAllReduce(group, Wire::kBf16).start(values);
    int other_stream = 0;
    EXPECT_THROW(work->wait_in_stream(&other_stream), Error);
    work->wait_in_stream(nullptr);
    EXPECT_TRUE(values.eq(4.5).all().item<bool>());
  });
}

}  // namespace
}  // namespace lockstep::strategies
