#include <cmath>

#include <gtest/gtest.h>

#include "lockstep/measure/series.h"
#include "lockstep/predict/jobs/job_profile.h"

#include "predict/jobs/sample_job.h"

namespace lockstep::predict {
namespace {

constexpr int kSamples = 4000;

/// A sample at each of so many equally probable places.
template <typename Quantile>
Spread spread_of(Quantile quantile) {
  std::vector<double> samples;
  for (int i = 0; i < kSamples; ++i) samples.push_back(quantile((i + 0.5) / kSamples));
  return Spread(samples);
}

double expected_maximum(const Spread& spread, int ranks) {
  return mean_of(maxima({.rank = spread, .host = Spread()}, {ranks, 1}, 2000));
}

TEST(StragglersTest, the_maximum_of_exponential_values_is_the_harmonic_number) {
  const Spread spread = spread_of([](double p) { return -std::log(1 - p); });
  for (const int ranks : {1, 2, 8, 64, 1024}) {
    double harmonic = 0;
    for (int i = 1; i <= ranks; ++i) harmonic += 1.0 / i;
    EXPECT_NEAR(expected_maximum(spread, ranks), harmonic, 0.03 * harmonic) << ranks;
  }
}

TEST(StragglersTest, the_maximum_of_normal_values_is_known) {
  const Spread spread = spread_of([](double p) { return measure::normal_quantile(p); });
  // Harter 1961.
  EXPECT_NEAR(expected_maximum(spread, 2), 0.5642, 0.01);
  EXPECT_NEAR(expected_maximum(spread, 10), 1.5388, 0.02);
  EXPECT_NEAR(expected_maximum(spread, 100), 2.5076, 0.06);
}

TEST(StragglersTest, a_distribution_and_its_quantiles_agree) {
  const Spread spread = spread_of([](double p) { return std::pow(1 - p, -0.3); });
  for (const double p : {0.01, 0.3, 0.9, 0.97, 0.999}) EXPECT_NEAR(spread.below(spread.quantile(p)), p, 1e-6);
  // The tail is the one that the samples have, far beyond them.
  EXPECT_NEAR(spread.quantile(1 - 1e-6), std::pow(1e-6, -0.3), 0.35 * std::pow(1e-6, -0.3));
}

TEST(StragglersTest, without_noise_nobody_is_late) {
  EXPECT_EQ(maxima({}, {8, 4}, 2), (std::vector<double>{0, 0}));
}

TEST(StragglersTest, ranks_of_a_host_share_its_part) {
  const Spread normal = spread_of([](double p) { return measure::normal_quantile(p); });
  // Hosts alone: their number counts, not that of the ranks.
  const StepNoise host{.rank = Spread(), .host = normal};
  EXPECT_NEAR(mean_of(maxima(host, {80, 8}, 64)), 1.5388, 0.05);
  const StepNoise rank{.rank = normal, .host = Spread()};
  EXPECT_NEAR(mean_of(maxima(rank, {10, 5}, 64)), 1.5388, 0.05);
  // Of two equal parts on hosts of one rank each the variance is the sum.
  const StepNoise both{.rank = normal, .host = normal};
  EXPECT_NEAR(mean_of(maxima(both, {10, 1}, 64)), std::sqrt(2) * 1.5388, 0.06);
}

}  // namespace
}  // namespace lockstep::predict
