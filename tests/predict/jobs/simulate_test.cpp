#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "lockstep/measure/series.h"
#include "lockstep/predict/jobs/job_model.h"

#include "predict/jobs/sample_job.h"

namespace lockstep::predict {
namespace {

double closed_form(const JobStep& step, const StepNoise& noise, const Placement& placement) {
  std::vector<double> steps;
  for (const double most : maxima(noise, placement, 64)) steps.push_back(step_s(step, most));
  return mean_of(steps);
}

/// A job of some kind: few or many buckets, bound by computing or by its network, with light or heavy noise.
class RandomJob {
 public:
  explicit RandomJob(uint64_t seed) : generator_(seed) {
    placement.per_host = 1 << whole(0, 3);
    placement.ranks = placement.per_host * whole(1, 32);
    step.computing_s = number(0.05, 0.5);
    step.update_s = number(0, 0.1) * step.computing_s;
    step.other_s = number(0, 0.02) * step.computing_s;
    const int buckets = whole(1, 30);
    const double load = std::exp(number(std::log(0.02), std::log(3))) * step.computing_s;
    for (int k = 1; k <= buckets; ++k) {
      step.queue.push_back({.ready_s = step.computing_s * (0.33 + 0.67 * k / buckets),
                            .cost_s = load / buckets * number(0.3, 1.7),
                            .late_s = number(0, 0.2) * load / buckets});
    }
    step.overlaps = whole(0, 4) > 0;
    step.updates_on_arrival = whole(0, 1) == 1;
    if (step.updates_on_arrival && whole(0, 2) == 0) {
      for (const QueuedCollective& collective : step.queue) step.gather_s.push_back(collective.cost_s / 2);
    }
    if (whole(0, 3) == 0) step.fetch_s = number(0, 0.3) * step.computing_s;
    step.loss = {.compute = number(0, 0.4), .network = number(0, 0.4)};
    noise = {.rank = lognormal(), .host = whole(0, 1) == 1 ? lognormal() : Spread()};
  }

  JobStep step;
  StepNoise noise;
  Placement placement;

 private:
  double number(double low, double high) { return std::uniform_real_distribution(low, high)(generator_); }
  int whole(int low, int high) { return std::uniform_int_distribution(low, high)(generator_); }

  Spread lognormal() {
    std::lognormal_distribution<double> values(0, number(0.005, 0.06));
    std::vector<double> samples;
    for (int i = 0; i < 400; ++i) samples.push_back(values(generator_));
    const double mean = mean_of(samples);
    for (double& sample : samples) sample = sample / mean - 1;
    return Spread(samples);
  }

  std::mt19937_64 generator_;
};

TEST(SimulateTest, two_hundred_random_jobs_take_as_long_as_the_closed_form_says) {
  std::vector<double> differences;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const RandomJob job(seed);
    const Simulation simulation =
        simulate_steps(job.step, job.step, true, job.noise, job.placement, {.steps = 150, .seed = seed});
    const double closed_s = closed_form(job.step, job.noise, job.placement);
    differences.push_back(std::abs(mean_of(simulation.step_s) / closed_s - 1));
  }
  EXPECT_LE(measure::percentile(differences, 50), 0.01);
  EXPECT_LE(measure::percentile(differences, 100), 0.05);
  RecordProperty("median", std::to_string(measure::percentile(differences, 50)));
  RecordProperty("worst", std::to_string(measure::percentile(differences, 100)));
}

TEST(SimulateTest, a_thousand_ranks_are_simulated_in_one_process) {
  const JobModel model = sample_model();
  const Scenario scenario{.placement = {1024, 2}};
  const Simulation simulation = simulate(model, scenario, {.steps = 100});
  EXPECT_EQ(simulation.step_s.size(), 100u);
  EXPECT_NEAR(simulation.images_per_s, model.images_per_s(scenario), 0.05 * model.images_per_s(scenario));
}

TEST(SimulateTest, the_same_seed_gives_the_same_steps) {
  const JobModel model = sample_model();
  const auto steps = [&](uint64_t seed) {
    return simulate(model, {.placement = {8, 2}}, {.steps = 9, .seed = seed}).step_s;
  };
  EXPECT_EQ(steps(1), steps(1));
  EXPECT_NE(steps(1), steps(2));
}

TEST(SimulateTest, a_slow_rank_a_thin_link_and_a_lost_host_have_their_price) {
  const JobModel model = sample_model("10gbit,50us");
  const Scenario scenario{.placement = {8, 2}};
  const double whole = simulate(model, scenario, {}).images_per_s;
  const Simulation slow = simulate(model, scenario, {.slow_rank = 2});
  EXPECT_LT(slow.images_per_s, 0.7 * whole);
  EXPECT_GT(slow.waiting, 0.25);
  EXPECT_LT(simulate(model, scenario, {}).waiting, 0.05);
  EXPECT_LT(simulate(model, scenario, {.thin_link = 0.1}).images_per_s, 0.95 * whole);
  const double lost = simulate(model, scenario, {.lost_host_after = 50}).images_per_s;
  const double before_s = model.predict(scenario).step_s,
               after_s = model.predict({.placement = {6, 2}}).step_s;
  const double expected = 8 * (50 * 8 + 50 * 6) / (50 * (before_s + after_s));
  EXPECT_NEAR(lost, expected, 0.02 * expected);
  EXPECT_LT(lost, 0.97 * whole);
  EXPECT_THROW(simulate(model, {.placement = {2, 2}}, {.lost_host_after = 5}), ConfigError);
  // Those that are left share the batch of the job.
  const Simulation strong =
      simulate(model, {.placement = {8, 2}, .global_batch = 64}, {.steps = 20, .lost_host_after = 1});
  EXPECT_NEAR(strong.images_per_s, 64 / mean_of(strong.step_s), 1e-6);
}

TEST(SimulateTest, asynchronous_ranks_queue_at_their_servers) {
  const JobStep step{.fetch_s = 0.1, .servers_s = 4, .computing_s = 1};
  const Simulation bound = simulate_steps(step, step, false, {}, {8, 1}, {.steps = 200});
  EXPECT_NEAR(mean_of(bound.step_s), 4, 0.05);
  JobStep free = step;
  free.servers_s = 0.1;
  EXPECT_NEAR(mean_of(simulate_steps(free, free, false, {}, {8, 1}, {.steps = 200}).step_s), 1.1, 0.02);
}

}  // namespace
}  // namespace lockstep::predict
