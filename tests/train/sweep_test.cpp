#include "lockstep/train/rows/sweep.h"

#include <cstdlib>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"
#include "lockstep/kernels/kernel_choice.h"
#include "lockstep/train/rows/row_estimate.h"
#include "lockstep/train/rows/row_rules.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using train::plan_rows;
using train::SweepOptions;

std::vector<std::string> labels(const SweepOptions& options) {
  std::vector<std::string> all;
  for (const train::RowPlan& row : plan_rows(options)) all.push_back(row.label());
  return all;
}

std::string refusal(const SweepOptions& options) {
  try {
    plan_rows(options);
  } catch (const ConfigError& error) {
    return std::string(error.what()) + " " + error.advice();
  }
  return "accepted";
}

/// Empty where it can be had.
std::string why_not(const train::RowPlan& row, const strategies::GpuUse& use) {
  const auto reason = train::why_not_on_device(row, use);
  return reason ? reason->what() : "";
}

TEST(SweepTest, controls_stand_beside_every_number_of_ranks) {
  EXPECT_THAT(labels({.models = {"lenet5"}, .batches = {8}, .ranks = {1, 2}}),
              ElementsAre("lenet5 single 1 rank x 8", "lenet5 ddp 1 rank x 8", "lenet5 ddp 2 ranks x 8",
                          "lenet5 independent 2 ranks x 8"));
}

TEST(SweepTest, controls_can_be_left_out) {
  EXPECT_THAT(labels({.models = {"lenet5"}, .batches = {8}, .ranks = {2}, .controls = false}),
              ElementsAre("lenet5 ddp 2 ranks x 8"));
}

TEST(SweepTest, an_option_changes_the_rows_of_its_strategies_alone) {
  SweepOptions options{.models = {"lenet5"}, .ranks = {2}, .strategies = {"sharded", "ddp"}};
  options.strategy_options = {{"--wire", "bf16"}};
  for (const train::RowPlan& row : plan_rows(options))
    EXPECT_EQ(row.parsed_options.wire == strategies::Wire::kBf16, row.strategy == "ddp") << row.label();
}

TEST(SweepTest, rows_that_differ_in_nothing_but_a_swept_setting_are_told_apart) {
  EXPECT_THAT(
      labels({.models = {"lenet5"}, .batches = {8}, .ranks = {2}, .bucket_mb = {1, 25}, .controls = false}),
      ElementsAre("lenet5 ddp 2 ranks x 8, buckets of 1 MiB", "lenet5 ddp 2 ranks x 8, buckets of 25 MiB"));
  EXPECT_THAT(labels({.models = {"lenet5"},
                      .batches = {8},
                      .ranks = {1},
                      .precisions = {"fp32", "bf16"},
                      .kernels = {"aten"}}),
              ElementsAre("lenet5 single 1 rank x 8, fp32", "lenet5 ddp 1 rank x 8, fp32",
                          "lenet5 single 1 rank x 8, bf16", "lenet5 ddp 1 rank x 8, bf16"));
}

TEST(SweepTest, lists_sweep_and_repeats_are_measured_once) {
  const auto rows = plan_rows({.models = {"lenet5", "mlp"},
                               .batches = {4, 8, 4},
                               .ranks = {2, 1, 2},
                               .precisions = {"fp32", "bf16"},
                               .bucket_mb = {1, 25}});
  // Per model, batch and precision: single, ddp at 2 caps x 2 ranks, independent at 2.
  EXPECT_EQ(rows.size(), 2u * 2 * 2 * 6);
}

TEST(SweepTest, strategies_without_buckets_are_measured_once_whatever_caps_are_compared) {
  EXPECT_THAT(labels({.models = {"lenet5"},
                      .batches = {8},
                      .ranks = {2},
                      .strategies = {"horovod", "bsp", "replicated"},
                      .bucket_mb = {1, 25},
                      .controls = false}),
              ElementsAre("lenet5 horovod 2 ranks x 8", "lenet5 bsp 2 ranks x 8",
                          "lenet5 replicated 2 ranks x 8, buckets of 1 MiB",
                          "lenet5 replicated 2 ranks x 8, buckets of 25 MiB"));
}

TEST(SweepTest, caps_are_not_compared_where_no_strategy_knows_them) {
  EXPECT_THAT(
      refusal({.models = {"lenet5"}, .ranks = {2}, .strategies = {"horovod", "bsp"}, .bucket_mb = {1, 25}}),
      HasSubstr("--bucket-mb has no effect on the strategy horovod, bsp"));
}

TEST(SweepTest, all_stands_for_every_strategy_but_the_controls) {
  const std::vector<std::string> names = train::spelled_out({"ddp", "all"});
  EXPECT_EQ(names.front(), "ddp");
  EXPECT_EQ(names.size(), strategies::registry().names().size() - 2);
  for (const std::string& name : names) EXPECT_EQ(results::role_of(name), results::Role::kStrategy);
}

TEST(SweepTest, a_baseline_is_measured_again_after_the_last_row_of_its_network) {
  const std::vector<train::RowPlan> rows =
      plan_rows({.models = {"lenet5", "mlp"}, .batches = {8}, .ranks = {1, 2}});
  std::vector<std::string> again;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (const auto baseline = train::baseline_after(rows, i))
      again.push_back(rows[i].label() + ": " + rows[*baseline].label());
  }
  EXPECT_THAT(again, ElementsAre("lenet5 independent 2 ranks x 8: lenet5 single 1 rank x 8",
                                 "mlp independent 2 ranks x 8: mlp single 1 rank x 8"));
  const std::vector<train::RowPlan> alone =
      plan_rows({.models = {"lenet5"}, .ranks = {1}, .strategies = {"single"}});
  EXPECT_FALSE(train::baseline_after(alone, 0));
  const std::vector<train::RowPlan> none =
      plan_rows({.models = {"lenet5"}, .ranks = {1, 2}, .controls = false});
  EXPECT_FALSE(train::baseline_after(none, 1));
}

TEST(SweepTest, kernels_sweep_where_there_are_several) {
  const SweepOptions both{.models = {"lenet5"}, .ranks = {2}, .kernels = {"aten", "fused", "aten"}};
  if (!kernels::why_no_fused_kernels().empty()) {
    EXPECT_THROW(plan_rows(both), BackendMissing);
    EXPECT_EQ(plan_rows({.models = {"lenet5"}, .ranks = {2}}).front().kernels, "aten");
    return;
  }
  std::vector<std::string> found;
  for (const train::RowPlan& row : plan_rows(both)) found.push_back(row.strategy + " " + row.kernels);
  EXPECT_THAT(found, ElementsAre("single aten", "ddp aten", "independent aten", "single fused", "ddp fused",
                                 "independent fused"));
  EXPECT_EQ(plan_rows({.models = {"lenet5"}, .ranks = {2}}).front().kernels, "auto");
}

TEST(SweepTest, the_default_batch_is_the_networks_own) {
  EXPECT_EQ(plan_rows({.models = {"resnet50"}, .ranks = {1}}).front().batch_per_rank, 32);
}

TEST(SweepTest, rows_on_gpus_have_kernels_for_gpus) {
  for (const train::RowPlan& row :
       plan_rows({.models = {"lenet5"}, .ranks = {2}, .common = {.device = "cuda"}})) {
    EXPECT_EQ(row.device, "cuda");
    EXPECT_EQ(row.kernels, "aten");
    EXPECT_FALSE(row.cuda_graph);
  }
  EXPECT_TRUE(
      plan_rows({.models = {"lenet5"}, .ranks = {1}, .common = {.device = "cuda", .cuda_graph = true}})
          .front()
          .cuda_graph);
}

TEST(SweepTest, what_a_device_cannot_have_is_refused_with_the_reason) {
  EXPECT_THAT(refusal({.ranks = {1}, .common = {.device = "gpu"}}),
              HasSubstr("unknown device 'gpu'; did you mean cuda?"));
  EXPECT_THAT(refusal({.ranks = {1}, .common = {.device = "cudda"}}), HasSubstr("did you mean cuda?"));
  EXPECT_THAT(refusal({.ranks = {1}, .common = {.device = "cuda:1"}}), HasSubstr("CUDA_VISIBLE_DEVICES=1"));
  EXPECT_THAT(refusal({.ranks = {1}, .common = {.cuda_graph = true}}), HasSubstr("Use --device cuda"));
  EXPECT_THAT(refusal({.ranks = {1}, .common = {.accumulate = 2, .device = "cuda", .cuda_graph = true}}),
              HasSubstr("--accumulate 2"));
  EXPECT_THAT(refusal({.ranks = {2}, .common = {.device = "cuda", .cuda_graph = true}, .verify_every = 5}),
              HasSubstr("--verify-every"));
}

TEST(SweepTest, fused_kernels_on_gpus_need_their_plugin) {
  ::setenv("LOCKSTEP_PLUGIN_PATH", "/nowhere", 1);
  const SweepOptions options{
      .models = {"lenet5"}, .ranks = {1}, .kernels = {"aten", "fused"}, .common = {.device = "cuda"}};
  try {
    plan_rows(options);
    FAIL() << "there is no plugin";
  } catch (const BackendMissing& error) {
    EXPECT_THAT(error.what(), HasSubstr("no lockstep_cuda_kernels.so in /nowhere"));
    EXPECT_THAT(error.advice(), HasSubstr("--kernels aten"));
  }
  ::unsetenv("LOCKSTEP_PLUGIN_PATH");
}

TEST(SweepTest, which_strategies_are_recorded_is_said_of_every_row) {
  SweepOptions options{.models = {"lenet5"},
                       .ranks = {2},
                       .strategies = {"all"},
                       .common = {.device = "cuda", .cuda_graph = true}};
  for (const train::RowPlan& row : plan_rows(options)) {
    const std::string reason = why_not(row, {.backend = "nccl"});
    const std::set<std::string> alike{"single",     "independent", "ddp",
                                      "replicated", "sharded",     "parameter_server"};
    const bool recorded = alike.contains(row.strategy);
    EXPECT_EQ(reason.empty(), recorded) << row.strategy << ": " << reason;
    if (!recorded) {
      EXPECT_THAT(reason, HasSubstr("--cuda-graph"));
    }
  }
  // Through the host only what does not communicate.
  options.strategies = {"ddp"};
  for (const train::RowPlan& row : plan_rows(options)) {
    EXPECT_THAT(why_not(row, {.backend = "gloo"}),
                row.strategy == "ddp" ? HasSubstr("over gloo") : HasSubstr(""));
    EXPECT_EQ(why_not(row, {.backend = "gloo"}).empty(), row.strategy != "ddp");
  }
}

TEST(SweepTest, threads_that_share_a_gpu_cannot_record_their_steps) {
  SweepOptions options{.models = {"lenet5"},
                       .ranks = {2},
                       .strategies = {"single"},
                       .common = {.device = "cuda", .cuda_graph = true}};
  const strategies::GpuUse sharing{.backend = "thread", .are_threads = true, .share_gpus = true};
  const strategies::GpuUse not_sharing{.backend = "thread", .are_threads = true};
  const strategies::GpuUse in_processes{.backend = "gloo", .share_gpus = true};
  int several = 0;
  for (const train::RowPlan& row : plan_rows(options)) {
    several += row.ranks > 1 ? 1 : 0;
    EXPECT_EQ(why_not(row, sharing).empty(), row.ranks == 1) << row.label();
    EXPECT_EQ(why_not(row, not_sharing), "");
    EXPECT_EQ(why_not(row, in_processes), "");
  }
  // The control.
  EXPECT_EQ(several, 1);
}

TEST(SweepTest, threads_that_share_a_gpu_cannot_draw_from_its_generator) {
  const std::string networks = LOCKSTEP_TEST_NETWORKS;
  for (const auto& [network, draws] : {std::pair("with_dropout", true), std::pair("mlp", false)}) {
    const auto rows = plan_rows({.models = {networks + ":" + network},
                                 .ranks = {1, 2},
                                 .strategies = {"replicated"},
                                 .common = {.device = "cuda"},
                                 .controls = false});
    ASSERT_EQ(rows.size(), 2u);
    for (const train::RowPlan& row : rows) {
      const std::string why = why_not(row, {.backend = "thread", .are_threads = true, .share_gpus = true});
      EXPECT_THAT(why, draws && row.ranks == 2 ? HasSubstr("draws random numbers") : HasSubstr(""));
      EXPECT_EQ(why.empty(), !draws || row.ranks == 1) << row.label();
      EXPECT_EQ(why_not(row, {.backend = "nccl", .are_threads = true}), "");
      EXPECT_EQ(why_not(row, {.backend = "gloo", .share_gpus = true}), "");
    }
  }
}

TEST(SweepTest, which_strategies_share_a_gpu_is_said_of_every_row) {
  SweepOptions options{
      .models = {"lenet5"}, .ranks = {1, 2}, .strategies = {"all"}, .common = {.device = "cuda"}};
  for (const train::RowPlan& row : plan_rows(options)) {
    const bool in_one_process = row.strategy == "data_parallel" && row.ranks > 1;
    EXPECT_EQ(why_not(row, {.backend = "gloo", .share_gpus = true}).empty(), !in_one_process) << row.label();
    const bool waits = in_one_process || (row.strategy == "ddp" && row.ranks > 1);
    EXPECT_EQ(why_not(row, {.backend = "thread", .are_threads = true, .share_gpus = true}).empty(), !waits)
        << row.label();
    EXPECT_EQ(why_not(row, {.backend = "nccl", .are_threads = true}), "");
  }
  options.common.device = "cpu";
  for (const train::RowPlan& row : plan_rows(options))
    EXPECT_EQ(why_not(row, {.backend = "thread", .are_threads = true, .share_gpus = true}), "");
}

TEST(SweepTest, what_cannot_be_measured_is_refused_by_name) {
  EXPECT_THAT(refusal({.models = {"resnet5"}, .ranks = {1}}), HasSubstr("did you mean resnet50"));
  EXPECT_THAT(refusal({.ranks = {1}, .strategies = {"dpp"}}), HasSubstr("did you mean ddp"));
  EXPECT_THAT(refusal({.ranks = {1}, .precisions = {"fp31"}}), HasSubstr("did you mean fp32"));
  EXPECT_THAT(refusal({.ranks = {1}, .kernels = {"fussed"}}), HasSubstr("did you mean fused"));
  train::SweepOptions without_momentum{.ranks = {1}};
  without_momentum.common.momentum = 0;
  without_momentum.common.nesterov = true;
  EXPECT_THAT(refusal(without_momentum), HasSubstr("--nesterov needs a momentum"));
  EXPECT_THAT(refusal({.ranks = {1}, .common = {.image_size = 8}}),
              HasSubstr("resnet50 takes images from 32x32"));
  EXPECT_THAT(refusal({.ranks = {1}, .strategies = {"independent"}, .controls = false}),
              HasSubstr("nothing to measure"));
}

TEST(SweepTest, strong_scaling_splits_one_batch_over_the_ranks) {
  const auto rows = plan_rows({.models = {"lenet5"}, .ranks = {1, 2, 4}, .global_batches = {32}});
  for (const train::RowPlan& row : rows) {
    EXPECT_EQ(row.global_batch, 32);
    EXPECT_EQ(row.batch_per_rank * row.ranks, 32) << row.label();
  }
  EXPECT_THAT(refusal({.models = {"lenet5"}, .ranks = {1, 3}, .global_batches = {32}}),
              HasSubstr("--global-batch 32 cannot be split into equal parts for 3 ranks"));
  EXPECT_THAT(refusal({.batches = {8}, .ranks = {1}, .global_batches = {32}}),
              HasSubstr("exclude each other"));
}

TEST(SweepTest, a_batch_that_does_not_fit_is_refused_with_one_that_does) {
  const auto rows =
      plan_rows({.models = {"resnet18"}, .batches = {4096}, .ranks = {1}, .common = {.image_size = 64}});
  try {
    train::check_memory(rows, 1, 2 * kGiB);
    FAIL();
  } catch (const ConfigError& error) {
    const std::string advice = error.advice();
    ASSERT_THAT(advice, HasSubstr("Use --batch "));
    const int fitting = std::stoi(advice.substr(advice.find("--batch ") + 8));
    EXPECT_GT(fitting, 0);
    const auto smaller =
        plan_rows({.models = {"resnet18"}, .batches = {fitting}, .ranks = {1}, .common = {.image_size = 64}});
    EXPECT_NO_THROW(train::check_memory(smaller, 1, 2 * kGiB));
    const auto larger = plan_rows(
        {.models = {"resnet18"}, .batches = {fitting + 2}, .ranks = {1}, .common = {.image_size = 64}});
    EXPECT_THROW(train::check_memory(larger, 1, 2 * kGiB), ConfigError);
  }
}

/// The batch that the refusal advises; 0: it advises none.
int advised_batch(const std::vector<train::RowPlan>& rows, const std::vector<train::GpuRoom>& gpus) {
  try {
    train::check_gpu_memory(rows, gpus);
  } catch (const ConfigError& error) {
    const std::string advice = error.advice();
    const size_t flag = advice.find("--batch ");
    return flag == std::string::npos ? 0 : std::stoi(advice.substr(flag + 8));
  }
  return -1;
}

std::vector<train::RowPlan> rows_on_gpus(int batch, int ranks) {
  return plan_rows({.models = {"resnet18"},
                    .batches = {batch},
                    .ranks = {ranks},
                    .common = {.device = "cuda", .image_size = 64},
                    .controls = false});
}

TEST(GpuMemoryTest, a_batch_that_does_not_fit_is_refused_with_the_gpu_and_the_one_that_does) {
  const train::GpuRoom room{"GPU 0 (NVIDIA Test)", 4 * kGiB};
  const int fitting = advised_batch(rows_on_gpus(65536, 1), {room});
  ASSERT_GT(fitting, 0);
  EXPECT_EQ(advised_batch(rows_on_gpus(fitting, 1), {room}), -1);
  EXPECT_GT(advised_batch(rows_on_gpus(fitting + fitting / 8 + 2, 1), {room}), 0);
  try {
    train::check_gpu_memory(rows_on_gpus(65536, 1), {room});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("on GPU 0 (NVIDIA Test)"));
    EXPECT_THAT(error.what(), HasSubstr("only 4.0 GiB are available"));
  }
  // Not even the parameters.
  EXPECT_EQ(advised_batch(rows_on_gpus(8, 1), {{"GPU 0 (NVIDIA Test)", kGiB}}), 0);
}

TEST(GpuMemoryTest, ranks_that_share_a_gpu_share_its_memory) {
  const std::vector<train::GpuRoom> shared(2, {"GPU 0 (NVIDIA Test)", 4 * kGiB});
  const std::vector<train::GpuRoom> own{{"GPU 0 (NVIDIA Test)", 4 * kGiB}, {"GPU 1 (NVIDIA Test)", 4 * kGiB}};
  const int alone = advised_batch(rows_on_gpus(65536, 2), own);
  const int together = advised_batch(rows_on_gpus(65536, 2), shared);
  EXPECT_GT(alone, 2 * together);
  EXPECT_GT(together, 0);
  // The second is too small, which only two ranks meet.
  const std::vector<train::GpuRoom> uneven{own[0], {"GPU 1 (NVIDIA Test)", kGiB}};
  EXPECT_EQ(advised_batch(rows_on_gpus(8, 1), uneven), -1);
  EXPECT_EQ(advised_batch(rows_on_gpus(8, 2), uneven), 0);
}

TEST(GpuMemoryTest, numbers_of_16_bits_take_half_as_much) {
  const auto estimate = [](const char* precision) {
    return train::estimate_memory(plan_rows({.models = {"resnet18"},
                                             .batches = {64},
                                             .ranks = {1},
                                             .precisions = {precision},
                                             .common = {.device = "cuda", .image_size = 64},
                                             .controls = false})
                                      .front());
  };
  const auto fp32_bytes = static_cast<double>(estimate("fp32").activation_bytes);
  EXPECT_EQ(static_cast<double>(estimate("tf32").activation_bytes), fp32_bytes);
  for (const char* precision : {"bf16", "bf16_pure", "fp16"}) {
    const int64_t bytes = estimate(precision).activation_bytes;
    EXPECT_LT(static_cast<double>(bytes), 0.7 * fp32_bytes) << precision;
    EXPECT_EQ(bytes, estimate("bf16").activation_bytes) << precision;
  }
  EXPECT_GT(estimate("bf16_pure").parameter_bytes, estimate("bf16").parameter_bytes);
}

TEST(GpuMemoryTest, rows_of_processors_need_no_gpu) {
  EXPECT_NO_THROW(
      train::check_gpu_memory(plan_rows({.models = {"lenet5"}, .ranks = {1}}), {{"GPU 0 (NVIDIA Test)", 0}}));
}

TEST(GpuMemoryTest, a_host_holds_less_of_a_row_on_gpus) {
  EXPECT_TRUE(train::check_memory(rows_on_gpus(65536, 2), 2, 8 * kGiB).empty());
  const std::vector<std::string> shortages = train::check_memory(rows_on_gpus(8, 2), 2, 2 * kGiB);
  ASSERT_EQ(shortages.size(), 1u);
  EXPECT_THAT(shortages.front(), testing::HasSubstr("on one host"));
}

TEST(OutOfMemoryTest, the_batch_that_would_fit_follows_from_what_was_used) {
  train::RowPlan row;
  row.batch_per_rank = 256;
  const train::MemoryEstimate estimate{
      .process_bytes = kGiB, .parameter_bytes = kGiB, .activation_bytes = 64 * kGiB};
  // Half of the activations were there when it ended.
  EXPECT_EQ(train::fitting_batch(row, estimate, 33 * kGiB), 115);
  // All that was estimated, and it did not do.
  EXPECT_EQ(train::fitting_batch(row, estimate, 80 * kGiB), 230);
  EXPECT_EQ(train::fitting_batch(row, estimate, kGiB / 2), 0);
  row.batch_per_rank = 1;
  EXPECT_EQ(train::fitting_batch(row, estimate, 80 * kGiB), 0);
}

}  // namespace
}  // namespace lockstep
