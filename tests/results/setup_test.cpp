#include "lockstep/results/record/setup.h"

#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/results/record/baseline.h"
#include "lockstep/results/tables/row_tables.h"

#include "results/sample_runs.h"

namespace lockstep::results {
namespace {

/// `run` with another value of the setting.
Run with_other_value(Run run, const Setting& setting) {
  std::visit(
      [&](auto member) {
        auto& value = run.*member;
        using T = std::remove_cvref_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::string>) {
          value += "x";
        } else if constexpr (std::is_same_v<T, bool>) {
          value = !value;
        } else {
          value += 1;
        }
      },
      setting.member);
  return run;
}

TEST(SetupTest, every_member_has_one_entry) {
  // A new member does not compile here until it is named, and fails until kSettings has it.
  const results::Setup setup;
  const auto& [model, batch_per_rank, global_batch, accumulate, ranks, hosts, strategy, backend, precision,
               kernels, memory_format, device, cuda_graph, input, data, input_options, image_size, bucket_mb,
               strategy_options, threads_per_rank, seed, parameters, parameter_tensors, largest_parameter,
               multiply_adds, learning_rate, momentum, weight_decay, nesterov, grad_clip, unit,
               units_per_sample] = setup;
  const std::set<const void*> members{&model,
                                      &batch_per_rank,
                                      &global_batch,
                                      &accumulate,
                                      &ranks,
                                      &hosts,
                                      &strategy,
                                      &backend,
                                      &precision,
                                      &kernels,
                                      &memory_format,
                                      &device,
                                      &cuda_graph,
                                      &input,
                                      &data,
                                      &input_options,
                                      &image_size,
                                      &bucket_mb,
                                      &strategy_options,
                                      &threads_per_rank,
                                      &seed,
                                      &parameters,
                                      &parameter_tensors,
                                      &largest_parameter,
                                      &multiply_adds,
                                      &learning_rate,
                                      &momentum,
                                      &weight_decay,
                                      &nesterov,
                                      &grad_clip,
                                      &unit,
                                      &units_per_sample};
  std::set<const void*> described;
  std::set<std::string> keys, names;
  for (const Setting& setting : kSettings) {
    std::visit([&](auto member) { described.insert(&(setup.*member)); }, setting.member);
    keys.insert(setting.key);
    names.insert(setting.name);
  }
  EXPECT_EQ(described, members);
  EXPECT_EQ(keys.size(), kSettings.size());
  EXPECT_EQ(names.size(), kSettings.size());
}

TEST(SetupTest, rows_that_differ_in_a_setting_are_the_same_row_only_where_it_is_merely_recorded) {
  const results::Run run = plain_run("ddp", 2);
  for (const Setting& setting : kSettings) {
    const results::Run other = with_other_value(run, setting);
    EXPECT_FALSE(setting.same(run, other)) << setting.key;
    EXPECT_EQ(same_row(run, other), setting.has(Setting::kRecorded)) << setting.key;
    const bool varies = !varying({&run, &other}).empty();
    EXPECT_EQ(varies, setting.is_attribute()) << setting.key;
    EXPECT_NE(setting.value_text(run), setting.value_text(other)) << setting.key;
  }
}

TEST(SetupTest, a_row_without_communication_has_no_settings_of_it) {
  const results::Run run = plain_run("single", 1);
  for (const Setting& setting : kSettings) {
    if (!setting.has(Setting::kOfCommunication) || setting.key == std::string("strategy")) continue;
    EXPECT_TRUE(same_row(run, with_other_value(run, setting))) << setting.key;
  }
}

TEST(SetupTest, phrases_say_the_default_in_words_of_its_own) {
  results::Run run = plain_run("ddp", 2);
  const auto phrases = [&] {
    std::vector<std::string> all;
    for (const Setting& attribute : attributes()) all.push_back(attribute.phrase(run));
    return all;
  };
  EXPECT_THAT(phrases(), testing::IsSupersetOf({"no accumulation", "no CUDA graph", "no options",
                                                "buckets of 25 MiB", "fused kernels", "images of 224"}));
  run.accumulate = 4;
  run.cuda_graph = true;
  run.strategy_options = "--wire bf16";
  run.tuning.emplace();
  EXPECT_THAT(phrases(), testing::IsSupersetOf({"gradients of 4 batches accumulated", "CUDA graph",
                                                "--wire bf16", "tuned buckets"}));
}

TEST(SetupTest, the_size_of_buckets_is_in_the_unit_that_is_short) {
  for (const auto& [mebibytes, text] : {std::pair{25.0, "25 MiB"},
                                        {0.5, "0.5 MiB"},
                                        {0.1, "0.1 MiB"},
                                        {1024.0, "1024 MiB"},
                                        {25.0 / 1024, "25 KiB"}})
    EXPECT_EQ(mebibytes_text(mebibytes), text);
}

}  // namespace
}  // namespace lockstep::results
