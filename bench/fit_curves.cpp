// The constants of `lockstep predict --curves`: fits the prior of curve_model.h to the published curves, and
// judges it by leaving out one site after the other, whose curves the constants of the others predict.
//
//   setup/build.sh release -DLOCKSTEP_BENCHMARKS=ON -- fit_curves
//   build/bench/fit_curves data/published/sources       two minutes on two free cores
//
// A site is the owner of the repository that published a curve.
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "lockstep/measure/series.h"
#include "lockstep/predict/curves/curve_model.h"

using namespace lockstep::predict;

namespace {

/// Tables of curves; the last one's were published by people who asked why they do not scale.
constexpr const char* kTables[] = {"curves",      "curves_strong",       "pytorch_throughput",
                                   "pytorch_ddp", "tensorpack_multigpu", "theano_mpi",
                                   "oci",         "curves_nodes"};
/// The fit takes so many curves of a site at most.
constexpr double kCurvesOfSite = 15;
/// Not fitted: floats of half the bits double what communication costs beside computing; and few publish
/// a step from one node to two that costs much.
constexpr double kHalfPrecision = 0.693, kNodeSizeDeviation = 2.5;
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
                               {"walk", &CurvePrior::walk, true, 0.4},
                               {"slope", &CurvePrior::slope, true, 0.2},
                               {"scatter", &CurvePrior::scatter, true, 0.006},
                               {"scatter_of_size", &CurvePrior::scatter_of_size, true, 0.04},
                               {"size", &CurvePrior::size, false, -3},
                               {"size_deviation", &CurvePrior::size_deviation, true, 1},
                               {"node_doubling", &CurvePrior::node_doubling, true, 0.3},
                               {"node_walk", &CurvePrior::node_walk, true, 0.3},
                               {"node_size", &CurvePrior::node_size, false, -3}};

std::string site_of(const Curve& curve) {
  std::string site = curve.source;
  if (site.starts_with("github ")) site.erase(0, 7);
  return site.substr(0, site.find_first_of("@:( /"));
}

/// Curves of two counts or more, and where the last table's begin. Tables without a column `source` are
/// sites of their own.
std::pair<std::vector<Curve>, size_t> published(const std::filesystem::path& sources) {
  std::vector<Curve> curves;
  size_t asked = 0;
  for (const std::string table : kTables) {
    asked = curves.size();
    for (Curve& curve : read_curves(sources / (table + ".csv"))) {
      if (curve.points.size() < 2) continue;
      if (curve.source.empty()) curve.source = table.substr(0, table.find("_multigpu"));
      curves.push_back(std::move(curve));
    }
  }
  return {std::move(curves), asked};
}

/// Means of an error and of a score of the interval, so that the best interval holds 90 %: logarithms in
/// percent, each curve from each of its counts.
double loss(const std::vector<Curve>& curves, const CurvePrior& prior) {
  double sum = 0, weights = 0;
  for (const Curve& curve : curves) {
    const size_t count = curve.points.size();
    const double weight = 2 / (static_cast<double>(count) * static_cast<double>(count - 1));
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
CurvePrior fitted(const std::vector<Curve>& all) {
  std::map<std::string, double> curves_of, taken;
  for (const Curve& curve : all) ++curves_of[site_of(curve)];
  std::vector<Curve> curves;
  for (const Curve& curve : all) {
    double& share = taken[site_of(curve)];
    share += std::min(1.0, kCurvesOfSite / curves_of[site_of(curve)]);
    if (share < 1) continue;
    share -= 1;
    curves.push_back(curve);
  }
  std::vector<double> step(std::size(kConstants), 0.2), place(std::size(kConstants), 0);
  const auto prior_at = [](const std::vector<double>& moved) {
    CurvePrior prior{.half_precision = kHalfPrecision, .node_size_deviation = kNodeSizeDeviation};
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

using PriorOf = std::function<const CurvePrior&(const Curve&)>;

constexpr std::optional<int> kKnown[] = {1, 2, 4, 8, 16, {}};

/// Predictions of the curves that have a count to know.
std::vector<CurvePrediction> predictions_of(std::span<const Curve> curves, std::optional<int> known,
                                            const PriorOf& prior_of) {
  std::vector<CurvePrediction> all;
  for (const Curve& curve : curves) {
    if (known && curve.points.front().gpus > *known) continue;
    std::ranges::move(predict_curves(std::span(&curve, 1), known, prior_of(curve)), std::back_inserter(all));
  }
  return all;
}

/// The widening below and above with which 5 % of the predictions from `counts` are below their intervals and
/// 90 % within them; what is not known costs more often than it saves, so none is narrowed below, and few
/// publish a first step from one node to several that costs much.
std::pair<double, double> widening(std::span<const Curve> curves, const PriorOf& prior_of,
                                   KnownCounts counts) {
  std::vector<double> below, above;
  for (const std::optional<int> known : kKnown) {
    for (const CurvePrediction& row : predictions_of(curves, known, prior_of)) {
      if (row.strong || row.known != counts) continue;
      const auto reach = [&](double end, double side) {
        const double half = side * std::max(1e-3, side * std::log(end / row.forecast.images_per_s));
        return std::max(0.0, std::log(row.measured / row.forecast.images_per_s) / half);
      };
      below.push_back(reach(row.forecast.low, -1));
      above.push_back(reach(row.forecast.high, 1));
    }
  }
  const double lower = std::max(counts == KnownCounts::kOneNodeForSeveral ? 1.25 : 1,
                                lockstep::measure::percentile(below, 95));
  const double missed =
      100.0 * static_cast<double>(std::ranges::count_if(below, [&](double reach) { return reach > lower; })) /
      static_cast<double>(below.size());
  return {lower, lockstep::measure::percentile(above, 90 + missed)};
}

/// The table of docs/predicting.md.
void print_classes(std::span<const Curve> curves, const PriorOf& prior_of) {
  fmt::print(
      "| known GPUs | predicted | n | within the 90 % interval | median error | log2 N | last efficiency | "
      "median "
      "width |\n|---|---|---|---|---|---|---|---|\n");
  using Belongs = bool (*)(const CurvePrediction&);
  const std::pair<const char*, Belongs> places[] = {
      {"within a node", [](const CurvePrediction& row) { return !row.strong && !row.several_nodes; }},
      {"between nodes", [](const CurvePrediction& row) { return !row.strong && row.several_nodes; }},
      {"strong scaling", [](const CurvePrediction& row) { return row.strong; }}};
  for (const auto& [place, belongs] : places) {
    double all = 0, all_covered = 0;
    for (const std::optional<int> known : kKnown) {
      std::vector<double> errors, log2, last, widths;
      double covered = 0;
      for (const CurvePrediction& row : predictions_of(curves, known, prior_of)) {
        if (!belongs(row)) continue;
        const auto error = [&](double rate) { return 100 * std::abs(rate / row.measured - 1); };
        errors.push_back(error(row.forecast.images_per_s));
        log2.push_back(error(row.log2));
        last.push_back(error(row.last_efficiency));
        widths.push_back(100 * (row.forecast.high - row.forecast.low) / row.forecast.images_per_s);
        covered += row.is_covered();
      }
      if (errors.empty()) continue;
      const auto median = [](const std::vector<double>& values) {
        return lockstep::measure::percentile(values, 50);
      };
      const double count = static_cast<double>(errors.size());
      fmt::print("| {} | {} | {} | {:.0f} % | {:.1f} % | {:.1f} % | {:.1f} % | {:.0f} % |\n",
                 known ? std::to_string(*known) : "half", place, count, 100 * covered / count, median(errors),
                 median(log2), median(last), median(widths));
      all += count;
      all_covered += covered;
    }
    fmt::print("| all | {} | {} | {:.0f} % | | | | |\n", place, all, 100 * all_covered / all);
  }
}

/// Constants by the site that they were fitted without.
std::map<std::string, CurvePrior> fitted_without_each(const std::vector<Curve>& curves) {
  std::map<std::string, CurvePrior> priors;
  for (const Curve& curve : curves) priors[site_of(curve)] = {};
  std::mutex mutex;
  auto next = priors.begin();
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) {
    threads.emplace_back([&] {
      for (;;) {
        std::unique_lock lock(mutex);
        if (next == priors.end()) return;
        auto& [site, prior] = *next++;
        lock.unlock();
        std::vector<Curve> others;
        for (const Curve& curve : curves)
          if (site_of(curve) != site) others.push_back(curve);
        prior = fitted(others);
      }
    });
  }
  threads.clear();
  return priors;
}

}  // namespace

int main(int argc, char** argv) {
  const auto [curves, asked] = published(argc > 1 ? argv[1] : "data/published/sources");
  CurvePrior prior = fitted(curves);
  std::map<std::string, CurvePrior> priors = fitted_without_each(curves);
  const PriorOf without = [&](const Curve& curve) -> const CurvePrior& { return priors.at(site_of(curve)); };
  prior.combined = true;
  for (auto& [site, other] : priors) other.combined = true;
  for (size_t counts = 0; counts < prior.widening.size(); ++counts)
    prior.widening[counts] = widening(curves, without, static_cast<KnownCounts>(counts));
  for (auto& [site, other] : priors) other.widening = prior.widening;
  for (const Constant& constant : kConstants) fmt::print("{} {:.3g}\n", constant.name, prior.*constant.value);
  for (const auto& [below, above] : prior.widening) fmt::print("widening {:.3g} {:.3g}\n", below, above);
  std::vector<double> steps_s;
  for (const Curve& curve : curves)
    if (curve.points[0].batch_per_gpu > 0)
      steps_s.push_back(curve.points[0].cost_s() * curve.points[0].batch_per_gpu);
  fmt::print("step {:.2g} s\n\nEach site by all others:\n\n", lockstep::measure::percentile(steps_s, 50));
  print_classes(curves, without);
  fmt::print("\nThe same without curves_nodes.csv:\n\n");
  print_classes(std::span(curves).first(asked), without);
}
