#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "lockstep/measure/series.h"

namespace lockstep::measure {
namespace {

/// Steps of 0.1 s that scatter by a tenth, and of which `disturbed` are half as long again.
std::vector<double> noisy_steps(size_t count, double disturbed, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> scatter(0.1, 0.01);
  std::bernoulli_distribution is_disturbed(disturbed);
  std::vector<double> step_s(count);
  for (double& each : step_s) each = scatter(random) * (is_disturbed(random) ? 1.5 : 1);
  return step_s;
}

std::vector<size_t> numbers_of(const std::vector<double>& step_s) {
  std::vector<size_t> numbers(step_s.size());
  std::iota(numbers.begin(), numbers.end(), size_t{0});
  return numbers;
}

TEST(PeriodicStepsTest, the_distance_and_what_they_cost) {
  for (const size_t apart : {2U, 3U, 10U, 25U}) {
    std::vector<double> step_s(90, 0.1);
    for (size_t i = apart - 1; i < step_s.size(); i += apart) step_s[i] += 0.08;
    const auto found = find_periodic_steps(step_s, numbers_of(step_s));
    ASSERT_TRUE(found) << apart;
    EXPECT_EQ(found->apart, apart);
    EXPECT_EQ(found->count, 90 / apart);
    EXPECT_NEAR(found->longer_s, 0.08, 1e-9);
  }
}

TEST(PeriodicStepsTest, a_slow_begin_and_missing_steps_change_nothing) {
  std::vector<double> step_s(60, 0.1);
  std::vector<size_t> numbers = numbers_of(step_s);
  for (size_t& number : numbers) number += number >= 30 ? 25 : 0;
  for (size_t i = 0; i < step_s.size(); ++i) step_s[i] += numbers[i] % 10 == 9 || i < 2 ? 0.08 : 0;
  const auto found = find_periodic_steps(step_s, numbers);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->apart, 10);
}

// A machine that becomes slower for a while, as one that is shared does.
TEST(PeriodicStepsTest, are_found_in_noise_and_drift) {
  int right = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::vector<double> step_s = noisy_steps(90, 0.1, seed);
    for (size_t i = 9; i < step_s.size(); i += 10) step_s[i] += 0.08;
    for (size_t i = 40; i < 60; ++i) step_s[i] *= 1.6;
    const auto found = find_periodic_steps(step_s, numbers_of(step_s));
    right += found && found->apart == 10 ? 1 : 0;
  }
  EXPECT_GE(right, 190);
}

TEST(PeriodicStepsTest, noise_has_none) {
  for (const double disturbed : {0.0, 0.05, 0.2, 0.4}) {
    int found = 0;
    for (unsigned seed = 0; seed < 500; ++seed) {
      const std::vector<double> step_s = noisy_steps(90, disturbed, seed);
      found += find_periodic_steps(step_s, numbers_of(step_s)) ? 1 : 0;
    }
    EXPECT_LE(found, 5) << disturbed;
  }
}

// Short steps that scatter by a third now and then, beside a pause that lasts many of them.
TEST(PeriodicStepsTest, the_distance_is_that_of_the_time_not_of_its_parts) {
  int right = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::vector<double> step_s = noisy_steps(240, 0.3, seed);
    for (size_t i = 19; i < step_s.size(); i += 20) {
      step_s[i] += 20;
      step_s[i - 10] *= 1.5;
    }
    const auto found = find_periodic_steps(step_s, numbers_of(step_s));
    right += found && found->apart == 20 && found->longer_s > 19 ? 1 : 0;
  }
  EXPECT_GE(right, 98);
}

TEST(PeriodicStepsTest, few_steps_have_none) {
  for (size_t count = 0; count < 9; ++count) {
    std::vector<double> step_s(count, 0.1);
    for (size_t i = 0; i < count; i += 2) step_s[i] = 0.2;
    EXPECT_FALSE(find_periodic_steps(step_s, numbers_of(step_s))) << count;
  }
}

}  // namespace
}  // namespace lockstep::measure
