// The constants of `lockstep predict --curves`: fits the prior of curve_model.h to the published curves of
// half of the sites, and judges it on the others.
//
//   setup/build.sh release -DLOCKSTEP_BENCHMARKS=ON -- fit_curves
//   build/bench/fit_curves data/published/sources       a minute or two
//
// A site is the owner of the repository that published a curve. Chosen on are sites whose names have a
// SHA-256 that begins with 0 to 7 (printf NAME | sha256sum) and whose tables docs/predicting.md does not
// judge by.
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "lockstep/measure/percentiles.h"
#include "lockstep/predict/curves/curve_file.h"
#include "lockstep/predict/curves/judge.h"

using namespace lockstep::predict;

namespace {

/// Of the sites whose curves have two counts or more.
const std::set<std::string> kChosenOn{"NVIDIA", "PaddlePaddle", "horovod", "lambdal"};
/// A site counts as so many curves at most.
constexpr double kCurvesOfSite = 15;
/// Price of leaving the constants to start from, per squared step.
constexpr double kRidge = 0.02;

struct Constant {
  const char* name;
  double CurvePrior::*value;
  bool positive;
  double start;
};
const Constant kConstants[] = {{"doubling", &CurvePrior::doubling, false, 0.2},
                               {"ring", &CurvePrior::ring, false, 0.4},
                               {"several_gpus", &CurvePrior::several_gpus, false, 0},
                               {"several_nodes", &CurvePrior::several_nodes, false, 0.2},
                               {"nodes_deviation", &CurvePrior::nodes_deviation, true, 0.2},
                               {"walk", &CurvePrior::walk, true, 0.4},
                               {"slope", &CurvePrior::slope, true, 0.2},
                               {"scatter", &CurvePrior::scatter, true, 0.006},
                               {"scatter_of_size", &CurvePrior::scatter_of_size, true, 0.04},
                               {"size", &CurvePrior::size, false, -3},
                               {"size_deviation", &CurvePrior::size_deviation, true, 1},
                               {"half_precision", &CurvePrior::half_precision, false, 0.9}};

std::string site_of(const Curve& curve) {
  std::string site = curve.source;
  if (site.starts_with("github ")) site.erase(0, 7);
  return site.substr(0, site.find_first_of("@:( /"));
}

/// Means of an error and of a score of the interval, so that the best interval holds 90 %: logarithms in
/// percent, each curve from each of its counts.
double loss(const std::vector<Curve>& curves, const CurvePrior& prior) {
  std::map<std::string, double> curves_of;
  for (const Curve& curve : curves) ++curves_of[site_of(curve)];
  double sum = 0, weights = 0;
  for (const Curve& curve : curves) {
    const size_t count = curve.points.size();
    const double weight = std::min(1.0, kCurvesOfSite / curves_of[site_of(curve)]) * 2 /
                          (static_cast<double>(count) * static_cast<double>(count - 1));
    for (size_t known = 1; known < count; ++known) {
      for (size_t at = known; at < count; ++at) {
        const Forecast found = forecast(curve, std::span(curve.points).first(known), curve.points[at], prior);
        const double measured = std::log(curve.points[at].images_per_s);
        const double low = std::log(found.low), high = std::log(found.high);
        const double missed = std::max({low - measured, measured - high, 0.0});
        sum += weight *
               (100 * std::abs(std::log(found.images_per_s) - measured) + 10 * (high - low + 20 * missed));
        weights += weight;
      }
    }
  }
  return sum / weights;
}

/// Moves one constant at a time, farther after a success and less far after a failure.
CurvePrior fitted(const std::vector<Curve>& curves) {
  std::vector<double> step(std::size(kConstants), 0.2), place(std::size(kConstants), 0);
  const auto prior_at = [](const std::vector<double>& moved) {
    CurvePrior prior{};
    for (size_t i = 0; i < moved.size(); ++i)
      prior.*kConstants[i].value =
          kConstants[i].positive ? kConstants[i].start * std::exp(moved[i]) : kConstants[i].start + moved[i];
    return prior;
  };
  const auto price = [&](const std::vector<double>& moved) {
    double sum = loss(curves, prior_at(moved));
    for (const double distance : moved) sum += kRidge * distance * distance;
    return sum;
  };
  double least = price(place);
  for (int sweep = 0; sweep < 25; ++sweep) {
    const double before = least;
    for (size_t i = 0; i < place.size(); ++i) {
      bool better = false;
      for (const double direction : {1.0, -1.0}) {
        std::vector<double> moved = place;
        moved[i] += direction * step[i];
        const double found = price(moved);
        if (found >= least) continue;
        least = found;
        place = moved;
        better = true;
        break;
      }
      step[i] = std::max(0.005, step[i] * (better ? 1.3 : 0.5));
    }
    if (sweep > 6 && before - least < 1e-3) break;
  }
  return prior_at(place);
}

void print_errors(const char* title, const std::vector<CurvePrediction>& predictions) {
  const std::pair<const char*, std::function<bool(const CurvePrediction&)>> groups[] = {
      {"one node", [](const CurvePrediction& row) { return !row.strong && !row.several_nodes; }},
      {"several nodes", [](const CurvePrediction& row) { return !row.strong && row.several_nodes; }},
      {"efficiency below 0.7", [](const CurvePrediction& row) { return row.efficiency < 0.7; }},
      {"strong scaling", &CurvePrediction::strong}};
  for (const auto& [group, belongs] : groups) {
    std::vector<double> errors, least;
    double covered = 0;
    std::array<double, kSimplePredictors.size()> simple{};
    for (const CurvePrediction& row : predictions) {
      if (!belongs(row)) continue;
      errors.push_back(std::abs(row.forecast.images_per_s / row.measured - 1));
      covered += row.is_covered();
      for (size_t i = 0; i < simple.size(); ++i) simple[i] += std::abs(row.simple[i] / row.measured - 1);
    }
    if (errors.empty()) continue;
    const auto best = std::ranges::min_element(simple);
    const ErrorSummary summary = summarize_errors(errors);
    const double count = static_cast<double>(errors.size());
    fmt::print("| {} | {} | {} | {:.1f} % | {:.1f} % | {:.0f} % | {:.1f} % ({}) |\n", title, group,
               errors.size(), 100 * summary.mean, 100 * summary.median, 100 * covered / count,
               100 * *best / count, kSimplePredictors[static_cast<size_t>(best - simple.begin())].name);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path sources = argc > 1 ? argv[1] : "data/published/sources";
  std::vector<Curve> curves = read_curves(sources / "curves.csv");
  std::erase_if(curves, [](const Curve& curve) { return curve.points.size() < 2; });
  const auto divide = [&curves](const std::function<bool(const std::string& site)>& belongs) {
    std::pair<std::vector<Curve>, std::vector<Curve>> halves;
    for (const Curve& curve : curves)
      (belongs(site_of(curve)) ? halves.first : halves.second).push_back(curve);
    return halves;
  };
  const auto [chosen_on, others] = divide([](const std::string& site) { return kChosenOn.contains(site); });
  const CurvePrior prior = fitted(chosen_on);
  for (const Constant& constant : kConstants) fmt::print("{} {:.3g}\n", constant.name, prior.*constant.value);
  std::vector<double> steps_s;
  for (const Curve& curve : chosen_on)
    if (curve.points[0].batch_per_gpu > 0)
      steps_s.push_back(curve.points[0].cost_s() * curve.points[0].batch_per_gpu);
  fmt::print("step {:.2g} s\n\n", lockstep::measure::percentile(steps_s, 50));

  fmt::print(
      "| sites | curves | predictions | mean | median | covered | best simple "
      "|\n|---|---|---|---|---|---|---|\n");
  print_errors("chosen on", predict_curves(chosen_on, {}, prior));
  std::vector<CurvePrediction> not_chosen_on = predict_curves(others, {}, prior);
  std::ranges::move(predict_curves(read_curves(sources / "curves_strong.csv"), {}, prior),
                    std::back_inserter(not_chosen_on));
  print_errors("not chosen on", not_chosen_on);
  std::set<std::string> sites;
  for (const Curve& curve : curves) sites.insert(site_of(curve));
  std::vector<CurvePrediction> held_out;
  for (const std::string& name : sites) {
    const auto [site, rest] = divide([&](const std::string& other) { return other == name; });
    std::ranges::move(predict_curves(site, {}, fitted(rest)), std::back_inserter(held_out));
  }
  print_errors("each by all others", held_out);
}
