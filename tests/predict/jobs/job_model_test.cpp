#include "lockstep/predict/jobs/job_model.h"

#include <algorithm>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

#include "predict/jobs/sample_job.h"

namespace lockstep::predict {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(JobModelTest, what_was_measured_is_met) {
  const JobModel model = sample_model();
  const JobPrediction two = model.predict({.placement = {2, 2}});
  EXPECT_NEAR(two.step_s, 0.12, 1e-3);
  ASSERT_TRUE(two.measured_s);
  EXPECT_NEAR(*two.measured_s, two.step_s, 1e-9);
  EXPECT_THAT(two.extrapolated, ElementsAre());
  EXPECT_EQ(two.algorithm, "ring");
}

TEST(JobModelTest, factors_multiply_to_the_efficiency_within_its_interval) {
  const JobModel model = sample_model("1gbit,50us");
  for (const Scenario& scenario : {Scenario{.placement = {2, 2}}, Scenario{.placement = {64, 2}},
                                   Scenario{.placement = {64, 2}, .global_batch = 256},
                                   Scenario{.placement = {16, 4}, .strategy = "sharded"}}) {
    const JobPrediction row = model.predict(scenario);
    const PredictedFactors& f = row.factors;
    EXPECT_NEAR(f.batch * f.machine * f.strategy * f.transfer * f.stragglers * f.unexplained, row.efficiency,
                1e-9);
    EXPECT_LE(row.low, row.efficiency);
    EXPECT_GE(row.high, row.efficiency);
    EXPECT_LT(row.low, row.high);
    EXPECT_NEAR(row.images_per_s, scenario.placement.ranks * row.batch / row.step_s, 1e-6);
  }
}

TEST(JobModelTest, more_ranks_are_less_efficient_and_less_certain) {
  const JobModel model = sample_model();
  const JobPrediction few = model.predict({.placement = {4, 2}}),
                      many = model.predict({.placement = {512, 2}});
  EXPECT_GT(few.efficiency, many.efficiency);
  EXPECT_LT(few.high / few.low, many.high / many.low);
  EXPECT_THAT(many.extrapolated, ElementsAre("ranks", "hosts"));
}

TEST(JobModelTest, smaller_batches_keep_a_part_of_their_time) {
  const JobPrediction row = sample_model().predict({.placement = {8, 2}, .global_batch = 32});
  EXPECT_DOUBLE_EQ(row.batch, 4);
  // Half of the batch in a tenth and nine tenths of a half.
  EXPECT_NEAR(row.factors.batch, 0.5 / 0.55, 1e-9);
  EXPECT_THAT(row.extrapolated, Contains("batch"));
  EXPECT_THROW(sample_model().predict({.placement = {64, 2}, .global_batch = 32}), ConfigError);
}

TEST(JobModelTest, several_batches_of_one_rank_are_taken_for_others) {
  results::RunRecord record = sample_record();
  record.runs.push_back(record.runs[0]);
  record.runs.back().batch_per_rank = 4;
  record.runs.back().images_per_s = 4 / 0.07;
  JobProfile profile = read_profiles(record, "a.json", {}).front();
  CollectiveTable table(profile.backend);
  table.set_network({0, 1e9}, false);
  const JobPrediction row = JobModel(profile, table).predict({.placement = {8, 2}, .global_batch = 32});
  EXPECT_NEAR(row.factors.batch, 0.05 / 0.07, 2e-3);
  EXPECT_THAT(row.extrapolated, testing::Not(Contains("batch")));
}

TEST(JobModelTest, hosts_of_their_own_cost_no_shared_memory) {
  const JobModel model = sample_model("10gbit,20us");
  EXPECT_DOUBLE_EQ(model.predict({.placement = {8, 1}}).factors.machine, 1);
  EXPECT_NEAR(model.predict({.placement = {8, 2}}).factors.machine, 1 / 1.05, 0.01);
}

TEST(JobModelTest, the_bandwidth_for_an_efficiency_gives_it) {
  const JobModel model = sample_model("1gbit,1us");
  Scenario scenario{.placement = {32, 1}};
  const double goal =
      0.5 * (model.efficiency(scenario) + model.efficiency({.placement = {32, 1}, .bandwidth = 1e6}));
  const auto times = model.bandwidth_for(scenario, goal);
  ASSERT_TRUE(times);
  scenario.bandwidth = *times;
  EXPECT_NEAR(model.efficiency(scenario), goal, 1e-6);
  EXPECT_FALSE(model.bandwidth_for(scenario, 2));
}

TEST(JobModelTest, the_knee_is_the_last_number_of_ranks_that_is_good) {
  const JobModel model = sample_model("40gbit,30us");
  const double goal = 0.8;
  const int knee = model.knee({.placement = {1, 1}}, goal);
  EXPECT_GE(model.efficiency({.placement = {knee, 1}}), goal);
  EXPECT_LT(model.efficiency({.placement = {knee + 1, 1}}), goal);
  EXPECT_EQ(model.knee({.placement = {1, 1}}, 2), 0);
}

TEST(JobModelTest, without_costs_of_collectives_there_is_no_prediction) {
  JobProfile profile = read_profiles(sample_record(), "a.json", {}).front();
  try {
    JobModel(profile, CollectiveTable("gloo"));
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the cost of collectives is not known"));
    EXPECT_THAT(error.advice(), HasSubstr("--network 25gbit,20us"));
  }
}

TEST(JobModelTest, every_strategy_has_its_step) {
  const JobModel model = sample_model("1gbit,50us");
  const auto step_of = [&](const std::string& strategy) {
    return model.step({.placement = {16, 1}, .strategy = strategy});
  };
  EXPECT_EQ(step_of("ddp").queue.size(), 3u);
  EXPECT_TRUE(step_of("replicated").updates_on_arrival);
  EXPECT_EQ(step_of("sharded").gather_s.size(), step_of("sharded").queue.size());
  EXPECT_GT(step_of("parameter_server").fetch_s, 0);
  EXPECT_FALSE(step_of("bsp").overlaps);
  EXPECT_EQ(step_of("horovod").queue.size(), 1u);
  EXPECT_EQ(step_of("data_parallel").queue.size(), 0u);
  EXPECT_THROW(step_of("single"), ConfigError);
  EXPECT_FALSE(step_of("fsdp").queue.empty());
  EXPECT_THROW(step_of("unknown"), ConfigError);
}

/// sample_record() with its ddp row as another strategy.
JobModel model_of(const std::string& strategy, const std::string& options = "",
                  const std::string& network = "1gbit,50us") {
  results::RunRecord record = sample_record();
  record.runs[1].strategy = strategy;
  record.runs[1].strategy_options = options;
  JobProfile profile = read_profiles(record, "a.json", {}).front();
  CollectiveTable table(profile.backend);
  table.set_network(parse_network(network), false);
  return {profile, table};
}

TEST(JobModelTest, accumulated_batches_are_parts_of_a_global_one) {
  results::RunRecord record = sample_record();
  for (results::Run& run : record.runs) {
    run.accumulate = 2;
    run.images_per_s *= 2;
  }
  JobProfile profile = read_profiles(record, "a.json", {}).front();
  CollectiveTable table(profile.backend);
  for (const CollectivePoint& point : profile.points) table.add(point);
  const JobModel model(profile, table);
  const Scenario as_measured{.placement = {2, 2}, .global_batch = 32};
  EXPECT_EQ(model.batch_of(as_measured), 8);
  EXPECT_TRUE(model.predict(as_measured).measured_s);
  EXPECT_EQ(model.batch_of(changed(model, as_measured, "batch=2x")), 16);
  EXPECT_THROW(model.batch_of({.placement = {2, 2}, .global_batch = 3}), ConfigError);
}

TEST(JobModelTest, a_measured_step_is_of_its_placement) {
  const JobModel model = sample_model("1gbit,50us");
  EXPECT_TRUE(model.predict({.placement = {2, 2}}).measured_s);
  EXPECT_FALSE(model.predict({.placement = {2, 1}}).measured_s);
}

TEST(JobModelTest, no_bandwidth_of_a_network_speeds_up_the_library) {
  const JobModel model = sample_model("400gbit,1us");
  const Scenario scenario{.placement = {16, 1}};
  EXPECT_NEAR(effects_of(model, scenario, {"bandwidth=4x"}).front().gain, 0, 1e-3);
  EXPECT_NEAR(effects_of(model, scenario, {"latency=0"}).front().gain, 0, 1e-3);
  EXPECT_FALSE(model.bandwidth_for(scenario, model.efficiency(scenario) + 0.01));
  // Without a network the measured link is the one.
  EXPECT_GT(effects_of(sample_model(), {.placement = {16, 2}}, {"bandwidth=4x"}).front().gain, 0.05);
}

TEST(JobModelTest, the_measured_cap_of_buckets_changes_nothing) {
  for (const char* options : {"", "--wire bf16"}) {
    const JobModel model = model_of("ddp", options);
    const Scenario as_measured{.placement = {8, 1}};
    EXPECT_EQ(effects_of(model, as_measured, {"bucket=25"}).front().gain, 0);
    EXPECT_EQ(model.step(changed(model, as_measured, "bucket=25")).queue.size(), 3u);
  }
  // A cap counts fp32: of 6 MiB in bf16 it holds half as much of what was sent.
  const auto buckets = [](const char* options) {
    const JobModel model = model_of("replicated", options);
    return model.step(changed(model, {.placement = {8, 1}}, "bucket=2")).queue.size();
  };
  EXPECT_EQ(buckets(""), 3u);
  EXPECT_EQ(buckets("--wire bf16"), 6u);
}

TEST(JobModelTest, a_strategy_takes_the_options_that_it_has) {
  const JobModel model = model_of("replicated", "--overlap off --wire bf16");
  const Scenario sharded{.placement = {8, 1}, .strategy = "sharded"},
      ddp{.placement = {8, 1}, .strategy = "ddp"};
  EXPECT_FALSE(model.step(sharded).overlaps);
  EXPECT_TRUE(model.step(ddp).overlaps);
  // sharded has no --wire, so that gradients and values are fp32.
  const JobStep step = model.step(sharded);
  const auto sum_of = [](const JobStep& of) {
    double sum_s = 0;
    for (const QueuedCollective& collective : of.queue) sum_s += collective.cost_s;
    return sum_s;
  };
  ASSERT_EQ(step.gather_s.size(), 1u);
  EXPECT_NEAR(sum_of(step) / step.gather_s[0], 1, 0.01);
  EXPECT_GT(sum_of(step), 0.9 * sum_of(model.step(ddp)));
  for (const auto& [strategy, has_wire, has_buckets] : {std::tuple{"ddp", true, true},
                                                        {"sharded", false, true},
                                                        {"parameter_server", false, true},
                                                        {"bsp", true, false},
                                                        {"horovod", true, false}}) {
    const auto changes = usual_changes(model_of(strategy).profile());
    EXPECT_EQ(std::ranges::count(changes, "wire=bf16"), has_wire ? 1 : 0) << strategy;
    EXPECT_EQ(std::ranges::count(changes, "bucket=10"), has_buckets ? 1 : 0) << strategy;
  }
  EXPECT_EQ(wire_share("bsp", "--exchange nccl16"), 0.5);
  EXPECT_EQ(wire_share("ddp", "--exchange nccl16"), 1);
}

TEST(JobModelTest, a_sharded_rank_updates_its_share_and_busy_cores_hide_no_update) {
  JobProfile profile = read_profiles(sample_record(), "a.json", {}).front();
  profile.ranks_with_cores = 4;
  CollectiveTable table(profile.backend);
  table.set_network(parse_network("1gbit,50us"), false);
  const JobModel model(profile, table);
  const auto step_of = [&](const std::string& strategy, int ranks) {
    return model.step({.placement = {ranks, ranks}, .strategy = strategy, .bucket_mb = 0.001});
  };
  const JobStep free_cores = step_of("sharded", 2), busy_cores = step_of("sharded", 4);
  EXPECT_NEAR(free_cores.update_s / step_of("ddp", 2).update_s, 0.5, 1e-12);
  EXPECT_NEAR(busy_cores.update_s / step_of("replicated", 4).update_s, 0.25, 1e-12);
  EXPECT_TRUE(free_cores.updates_on_arrival);
  EXPECT_GT(free_cores.gather_s.size(), 1u);
  EXPECT_FALSE(busy_cores.updates_on_arrival);
  EXPECT_EQ(busy_cores.gather_s.size(), 1u);
  profile.core_share = 0.1;
  EXPECT_TRUE(JobModel(profile, table).step({.placement = {4, 4}, .strategy = "sharded"}).updates_on_arrival)
      << "a thread that waits for the link leaves its core to updates";
}

TEST(JobModelTest, asynchronous_servers_bound_the_step_by_what_they_receive) {
  JobProfile profile = read_profiles(sample_record(), "a.json", {}).front();
  profile.shape = *strategy_shape("parameter_server", "--consistency async --parameter-owners rank0");
  EXPECT_FALSE(profile.shape.coupled);
  CollectiveTable table("gloo");
  table.set_network({0, 1e9}, false);
  const JobModel model(profile, table);
  EXPECT_NEAR(
      model.step({.placement = {64, 1}}).servers_s,
      2 * 64 * 4.0 * 25557032 / 1e9 * model.step({.placement = {64, 1}}).fetch_s / (4.0 * 25557032 / 1e9),
      1e-6);
  EXPECT_EQ(model.predict({.placement = {64, 1}}).factors.stragglers, 1);
}

/// The ddp of sample_record() with 40 of its 120 ms as waiting for a rank, and without other rows.
JobModel waiting_model() {
  results::RunRecord record = sample_record();
  record.runs = {record.runs[1]};
  record.runs[0].breakdown = results::breakdown_of(2, 0.12, 0.04, 0.01);
  const JobProfile profile = read_profiles(record, "a.json", {}).front();
  CollectiveTable table(profile.backend);
  for (const CollectivePoint& point : profile.points) table.add(point);
  return {profile, table};
}

TEST(JobModelTest, measured_waiting_is_waiting_and_changes_scale_what_they_name) {
  const JobModel model = waiting_model();
  const Scenario scenario{.placement = {2, 2}};
  const JobPrediction row = model.predict(scenario);
  EXPECT_NEAR(row.step_s, 0.12, 2e-3);
  EXPECT_NEAR(row.factors.strategy, 1, 0.02);
  EXPECT_NEAR(row.factors.stragglers, 0.08 / 0.12, 0.1);
  const auto gain = [&](const char* change) { return effects_of(model, scenario, {change}).front().gain; };
  EXPECT_LT(gain("compute=2x"), 0.12 / (0.05 + 0.035) - 1 + 0.05);
  EXPECT_GT(gain("no-straggler"), 0.3);
  EXPECT_THAT(model.notes(), Contains(HasSubstr("waiting for rank 1")));
  // The simulated step is the predicted one.
  EXPECT_NEAR(step_s(model.step(scenario), 0), row.step_s, 0.02 * row.step_s);
  EXPECT_GE(model.knee({.placement = {2, 2}}, kGoodEfficiency), 1) << "a rank alone waits for nobody";
}

TEST(JobModelTest, a_step_that_collectives_do_not_explain_is_not_the_strategys) {
  results::RunRecord record = sample_record();
  record.runs[0] = results::measured_run("single", 1, 40, 0.07);
  record.runs[1].breakdown = results::breakdown_of(2, 0.12, 0, 0.05);
  record.runs.pop_back();
  const JobProfile profile = read_profiles(record, "a.json", {}).front();
  CollectiveTable table(profile.backend);
  table.add({2, CollectiveKind::kAllReduce, 1 << 20, 1e-5});
  table.add({2, CollectiveKind::kAllReduce, 4 << 20, 2e-5});
  const JobModel model(profile, table);
  const JobPrediction row = model.predict({.placement = {2, 2}});
  EXPECT_NEAR(row.step_s, 0.12, 1e-3);
  EXPECT_NEAR(row.factors.unexplained, 0.07 / 0.12, 0.05);
  EXPECT_THAT(model.notes(), Contains(HasSubstr("not explained")));
  EXPECT_LT(effects_of(model, {.placement = {2, 2}}, {"bandwidth=4x"}).front().gain, 0.02);
}

TEST(JobModelTest, noise_that_measured_steps_do_not_show_is_no_gain_elsewhere) {
  JobProfile profile = read_profiles(sample_record(), "a.json", {}).front();
  profile.noise = {Spread({-0.5, -0.5, -0.5, 1.5}), {}};
  CollectiveTable table(profile.backend);
  for (const CollectivePoint& point : profile.points) table.add(point);
  const JobPrediction row = JobModel(profile, table).predict({.placement = {2, 2}});
  EXPECT_NEAR(row.step_s, 0.12, 1e-3);
  for (const double factor : {row.factors.strategy, row.factors.transfer, row.factors.stragglers})
    EXPECT_LE(factor, 1.01);
  EXPECT_LE(row.factors.unexplained, 1.06);
  EXPECT_LE(row.high, 1);
}

TEST(JobModelTest, a_period_of_local_steps_shares_one_exchange) {
  const JobModel model = sample_model("1gbit,50us");
  const auto transfer_s = [&](int sync_every) {
    const Scenario scenario{.placement = {8, 1}, .strategy = "local_sgd", .sync_every = sync_every};
    return model.step(scenario).queue.front().cost_s;
  };
  ASSERT_EQ(model.step({.placement = {8, 1}, .strategy = "local_sgd"}).queue.size(), 1U);
  EXPECT_NEAR(transfer_s(16), transfer_s(1) / 16, 1e-9);
  EXPECT_FALSE(model.step({.placement = {8, 1}, .strategy = "local_sgd"}).overlaps);
  EXPECT_GT(model.predict(changed(model, {.placement = {8, 1}}, "sync-every=16")).images_per_s,
            model.predict({.placement = {8, 1}, .strategy = "local_sgd"}).images_per_s);
}

TEST(JobModelTest, a_low_rank_sends_little_after_backward) {
  const JobModel model = sample_model("1gbit,50us");
  const Scenario whole{.placement = {8, 1}, .strategy = "replicated"};
  const JobStep low = model.step(changed(model, whole, "wire=powersgd:4")), all = model.step(whole);
  const auto sum_s = [](const JobStep& step) {
    double sum = 0;
    for (const QueuedCollective& each : step.queue) sum += each.cost_s;
    return sum;
  };
  EXPECT_LT(sum_s(low), 0.2 * sum_s(all));
  EXPECT_FALSE(low.overlaps);
  EXPECT_GT(low.computing_s, all.computing_s);
  EXPECT_THROW(changed(model, {.placement = {8, 1}, .strategy = "horovod"}, "wire=powersgd:4"), ConfigError);
  EXPECT_THROW(changed(model, whole, "wire=powersgd:99"), ConfigError);
}

TEST(WhatIfTest, changes_are_sorted_by_their_gain) {
  const JobModel model = sample_model("1gbit,50us", "cuda");
  const Scenario scenario{.placement = {32, 1}};
  const auto effects = effects_of(model, scenario, usual_changes(model.profile()));
  ASSERT_GE(effects.size(), 8u);
  for (size_t i = 1; i < effects.size(); ++i) EXPECT_GE(effects[i - 1].gain, effects[i].gain);
  for (const ChangeEffect& effect : effects) {
    EXPECT_TRUE(effect.low < effect.gain && effect.gain < effect.high) << effect.change;
    // Uncertain terms change both rates alike, so that the gain is known better than the rate.
    const JobPrediction& job = effect.prediction;
    EXPECT_LT((effect.high - effect.low) / (1 + effect.gain), (job.high - job.low) / job.efficiency)
        << effect.change;
  }
  const auto gain = [&](const char* change) { return effects_of(model, scenario, {change}).front().gain; };
  EXPECT_GT(gain("bandwidth=2x"), 0.1);
  EXPECT_NEAR(gain("bandwidth=2gbit"), gain("bandwidth=2x"), 1e-9);
  EXPECT_LT(gain("bandwidth=0.5x"), -0.1);
  EXPECT_GT(gain("wire=bf16"), 0.1);
  // A processor needs time to convert.
  const JobModel on_processors = sample_model("1gbit,50us");
  EXPECT_LT(effects_of(on_processors, scenario, {"wire=bf16"}).front().gain, gain("wire=bf16") - 0.02);
  EXPECT_GT(gain("latency=0"), 0);
  EXPECT_GE(gain("no-straggler"), 0);
  EXPECT_GT(gain("batch=64"), 0.5);
  const ChangeEffect none = effects_of(model, scenario, {"bandwidth=1x"}).front();
  EXPECT_NEAR(none.gain, 0, 1e-12);
  EXPECT_NEAR(std::log1p(none.high), 1.645 * model.misfit(), 1e-9);
  EXPECT_NEAR(std::log1p(none.low), -1.645 * model.misfit(), 1e-9);
}

TEST(WhatIfTest, other_words_are_refused) {
  const JobModel model = sample_model();
  for (const char* change :
       {"bandwidth", "bandwidth=fast", "latency=-1", "wire=int8", "turbo", "batch=0", "compute=2"})
    EXPECT_THROW(changed(model, {.placement = {8, 2}}, change), ConfigError) << change;
  const auto refusal_of = [](const JobModel& of, int ranks, const char* change) -> std::string {
    try {
      changed(of, {.placement = {ranks, 1}}, change);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(refusal_of(model, 1, "bandwidth=25gbit"), HasSubstr("one rank has no link"));
  EXPECT_THAT(refusal_of(model_of("horovod"), 2, "bucket=10"), HasSubstr("horovod has no buckets"));
  CollectiveTable flat("gloo");
  // Rounding leaves something that is no transfer.
  flat.add({2, CollectiveKind::kAllReduce, 8, 1e-3});
  flat.add({2, CollectiveKind::kAllReduce, 3e6, 1e-3 * (1 + 1e-12)});
  EXPECT_THAT(refusal_of({model.profile(), flat}, 2, "bandwidth=25gbit"),
              HasSubstr("do not tell the present bandwidth"));
  for (const char* network : {"25", "25gbit,20", "gbit,20us", ""})
    EXPECT_THROW(parse_network(network), ConfigError);
  EXPECT_DOUBLE_EQ(parse_network("25gbit,20us").bytes_per_s, 25e9 / 8);
  EXPECT_DOUBLE_EQ(parse_network("500mbit,1ms").latency_s, 1e-3);
}

}  // namespace
}  // namespace lockstep::predict
