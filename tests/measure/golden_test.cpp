#include "golden/golden.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lockstep/measure/compare.h"
#include "lockstep/measure/interval.h"
#include "lockstep/measure/stopping.h"

#include "measure/synthetic.h"
#include "measure/verdict_words.h"

namespace lockstep::measure {
namespace {

/// A settled series and what changes it.
struct Shape {
  synthetic::Series series;
  /// The share that a warm-up adds, and its time constant in steps.
  double decay = 0;
  double constant = 1;
  /// So many steps take `level` times as long.
  size_t level_steps = 0;
  double level = 1;
  /// The changes at two thirds of the steps, and from the first to the last, as shares.
  double shift = 0;
  double trend = 0;
};

std::vector<double> draw(const Shape& shape, unsigned seed) {
  synthetic::Generator random(seed);
  std::vector<double> steps = synthetic::draw(shape.series, random);
  synthetic::add_decaying_warmup(steps, shape.series.median_s, shape.decay, shape.constant);
  synthetic::add_step_warmup(steps, shape.level_steps, shape.level);
  for (size_t i = 0; i < steps.size(); ++i) {
    steps[i] *= 1 + shape.trend * static_cast<double>(i) / static_cast<double>(steps.size());
    if (3 * i >= 2 * steps.size()) steps[i] *= 1 + shape.shift;
  }
  return steps;
}

std::string text_of(const Estimate& estimate) {
  if (!estimate.interval) return fmt::format("{:.5g} no interval: {}", estimate.value, estimate.reason_text);
  return fmt::format("{:.5g} [{:.5g}, {:.5g}] +-{:.3g}, {:.4g} degrees", estimate.value,
                     estimate.interval->lower, estimate.interval->upper, estimate.interval->half_width_share,
                     estimate.degrees);
}

std::string text_of(const StoppingDecision& decision) {
  return fmt::format("{} after {} more: {}", decision.stop ? "stop" : "go on", decision.steps_to_next,
                     decision.text);
}

/// The digits of very small ones depend on the mathematical library.
std::string p_text(const std::optional<double>& p) {
  if (!p) return "-";
  return *p < 1e-6 ? "< 1e-6" : fmt::format("{:.4g}", *p);
}

std::string text_of(const Comparison& row) {
  std::string text = fmt::format("{:.5g} {:.5g} {:.5g}", row.base_s, row.test_s, row.ratio);
  if (row.ratio_interval)
    text += fmt::format(" [{:.5g}, {:.5g}]", row.ratio_interval->lower, row.ratio_interval->upper);
  if (const auto change = row.change_percent_interval())
    text += fmt::format(" {:.4g} % [{:.4g}, {:.4g}] +-{:.3g}", row.change_percent(), change->lower,
                        change->upper, change->half_width_share);
  return text + fmt::format(" p {}, {}, certainty {}", p_text(row.p), verdict_words(row),
                            static_cast<int>(certainty_of(row)));
}

/// All that is said of one series.
std::string described(const std::string& name, const std::vector<double>& steps) {
  const SteadyState steady = find_steady_state(steps);
  const SeriesDiagnosis& rest = steady.remainder;
  std::string text = fmt::format("{}: cut {} ({}), {}{}\n", name, steady.cut, steady.chosen,
                                 steady.settled ? "settled" : "unsettled: ", steady.unsettled_reason);
  text += fmt::format("  rest: {}; median {:.5g}\n", rest.text(), rest.median);
  const LongRunVariance variance = long_run_variance(steps);
  const LongRunVariance above = indicator_long_run_variance(steps, rest.median);
  text +=
      fmt::format("  variance {:.4g} {:.4g} {:.4f} {:.4g}; above the median {:.4g} {:.4g} {:.4f} {:.4g}\n",
                  variance.value, variance.single, variance.lag_one, variance.degrees, above.value,
                  above.single, above.lag_one, above.degrees);
  for (const double share : {0.5, 0.75, 0.95})
    text += fmt::format("  p{:.0f} {}\n", 100 * share, text_of(quantile_estimate(steps, share)));
  text += fmt::format("  mean {}\n", text_of(mean_estimate(steps)));
  double elapsed_s = 0;
  for (const double step_s : steps) elapsed_s += step_s;
  for (const double target : {0.02, 0.002})
    text += fmt::format("  {}\n", text_of(decide_stop(steps, elapsed_s, {.precision_target = target})));
  text += fmt::format("  {}\n",
                      text_of(decide_stop(steps, elapsed_s,
                                          {.min_time_s = 0, .max_steps = steps.size(), .fixed_warmup = 5})));
  text += fmt::format("  {}\n", text_of(decide_stop(steps, 61, {.precision_target = 0.001})));
  return text;
}

TEST(GoldenTest, what_is_said_of_a_series) {
  const std::vector<std::pair<std::string, Shape>> shapes{
      {"settled", {}},
      {"short", {.series = {.steps = 20}}},
      {"too short", {.series = {.steps = 10}}},
      {"noisy", {.series = {.noise = 0.1}}},
      {"correlated", {.series = {.lag_one = 0.7}}},
      {"strongly correlated", {.series = {.steps = 400, .lag_one = 0.95}}},
      {"against one another", {.series = {.lag_one = -0.5}}},
      {"a quick warm-up", {.decay = 2, .constant = 2}},
      {"a slow warm-up", {.series = {.steps = 300}, .decay = 2, .constant = 25}},
      {"a warm-up with noise", {.series = {.steps = 300, .noise = 0.05}, .decay = 3, .constant = 10}},
      {"a warm-up that is faster", {.decay = -0.5, .constant = 8}},
      {"a warm-up that goes on", {.decay = 1, .constant = 300}},
      {"a warm-up on a level of its own",
       {.series = {.steps = 300, .noise = 0.03}, .level_steps = 60, .level = 1.05}},
      {"one on a level that is faster", {.series = {.steps = 300}, .level_steps = 40, .level = 0.97}},
      {"one that takes half of the steps",
       {.series = {.steps = 300, .noise = 0.01}, .level_steps = 150, .level = 1.02}},
      {"a shift", {.shift = 0.1}},
      {"a small shift", {.series = {.noise = 0.002}, .shift = 0.004}},
      {"a trend", {.trend = 0.2}},
      {"a falling trend", {.series = {.steps = 400, .noise = 0.05}, .trend = -0.1}},
      {"outliers", {.series = {.outlier_share = 0.04, .outlier = 3}}},
      {"outliers and a shift", {.series = {.outlier_share = 0.025, .outlier = 3}, .shift = -0.15}},
      {"always the same", {.series = {.noise = 0}}},
  };
  std::string text;
  unsigned seed = 0;
  for (const auto& [name, shape] : shapes) text += described(name, draw(shape, ++seed));
  testing_golden::expect_golden("statistics.txt", text);
}

TEST(GoldenTest, what_is_said_of_launches) {
  const auto launches = [](size_t count, double median_s, unsigned seed) {
    synthetic::Generator random(seed);
    return synthetic::draw({.launches = count, .steps = 60, .median_s = median_s}, random);
  };
  std::string text;
  for (const size_t count : {1, 2, 3, 4, 8}) {
    const auto base = launches(count, 0.05, 1);
    text += fmt::format("{} launches: median {}, mean {}\n", count, text_of(quantile_estimate(base, 0.5)),
                        text_of(mean_estimate(base)));
    for (const auto& [of_test, level_s] :
         std::map<size_t, double>{{1, 0.0525}, {2, 0.0505}, {4, 0.0525}, {8, 0.045}}) {
      const auto test = launches(of_test, level_s, 7);
      text += fmt::format("  against {} at {}: {}\n", of_test, level_s, text_of(compare(base, test)));
      text +=
          fmt::format("    p75, in pairs: {}\n",
                      text_of(compare(base, test, {.quantile = 0.75, .threshold = 0.06, .paired = true})));
    }
  }
  for (const size_t pairs : {5, 12, 40}) {
    const LookPlan plan(pairs);
    text += fmt::format("looks of {} pairs: {}, confidence {:.5f}, of the last {:.5f}\n", pairs,
                        fmt::join(plan.looks(), " "), plan.confidence_of_look(false),
                        plan.confidence_of_look(true));
  }
  testing_golden::expect_golden("launches.txt", text);
}

}  // namespace
}  // namespace lockstep::measure
