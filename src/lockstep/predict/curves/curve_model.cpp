#include "lockstep/predict/curves/curve_model.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/csv_table.h"
#include "lockstep/base/file.h"
#include "lockstep/base/number_range.h"
#include "lockstep/measure/series.h"
#include "lockstep/predict/jobs/job_model.h"

namespace lockstep::predict {
const CurvePrior kCurvePrior{.doubling = 0.405,
                             .ring = 0.366,
                             .several_gpus = 0.184,
                             .walk = 0.544,
                             .slope = 0.127,
                             .scatter = 0.00877,
                             .scatter_of_size = 0.0431,
                             .size = -3.2,
                             .size_deviation = 1.22,
                             .half_precision = 0.693,
                             .node_doubling = 0.325,
                             .node_walk = 0.21,
                             .node_size = -4.89,
                             .node_size_deviation = 2.5,
                             .combined = true,
                             .widening = {{{1, 0.922}, {2.44, 1.29}, {1.25, 0.92}, {3.33, 0.685}}}};
namespace {

/// Sizes of overhead that are tried, evenly within so many standard deviations, and shares of hidden
/// communication that are not hidden after all.
constexpr int kSizes = 8, kNodeSizes = 7, kUnhiddenShares = 3;
constexpr double kSizeRange = 2.2;
/// Step time at which sizes are as the prior has them, the median of the curves that it was fitted to, and
/// the deviation of what a step costs whatever its batch; for strong scaling alone.
constexpr double kStep_s = 0.32, kFixedDeviation = 0.07;
/// Deviation of communication that a table of collectives tells.
constexpr double kTransferDeviation = 0.25;
/// More GPUs cost no less than this share of the least known cost.
constexpr double kLeastCost = 0.9;
/// Beliefs that are less likely than the likeliest by this logarithm do not count.
constexpr double kLeastLogWeight = 10;

/// One of the beliefs that known counts are weighed by: sizes of the overhead within a node and between
/// nodes, and the share of hidden communication that is exposed.
struct Belief {
  double size, node_size, unhidden;
};

/// A normal distribution among others, by the logarithm of its weight.
struct Part {
  double log_weight, mean, variance;
};

/// Costs of the known points and of the one to predict: a normal distribution for a given belief, which each
/// known cost narrows. `usual_size` is that of the prior.
Part learn(std::span<const CurvePoint> points, const CurvePrior& prior, const Belief& belief,
           double usual_size) {
  const CurvePoint& first = points.front();
  const size_t count = points.size(), last = count - 1;
  const double size = belief.size;
  std::vector<double> doublings(count), node_doublings(count), steps(count, 1), transfer(count), mean(count);
  for (size_t i = 0; i < count; ++i) {
    const double n = points[i].gpus;
    doublings[i] = std::log2(n);
    node_doublings[i] = std::log2(points[i].nodes);
    if (points[i].batch_per_gpu > 0 && first.batch_per_gpu > 0)
      steps[i] = first.batch_per_gpu / points[i].batch_per_gpu;
    if (points[i].transfer_s)
      transfer[i] = (*points[i].transfer_s + belief.unhidden * points[i].hidden_s) /
                    (points[i].batch_per_gpu * first.cost_s());
    const double ring = points[i].transfer_s ? 0 : prior.ring;
    // Links within a node say little about those between nodes, of which a table tells.
    const double crossing = points[i].transfer_s || points[i].nodes == 1 ? 0 : belief.node_size;
    const double between = crossing + usual_size * prior.node_doubling * node_doublings[i];
    mean[i] = 1 + transfer[i] + between * steps[i] +
              size * steps[i] *
                  (prior.doubling * doublings[i] + ring * 2 * (n - 1) / n + (n > 1 ? prior.several_gpus : 0));
  }
  std::vector<std::vector<double>> covariance(count, std::vector<double>(count));
  for (size_t i = 0; i < count; ++i)
    for (size_t j = 0; j < count; ++j)
      covariance[i][j] =
          1 + std::pow(kFixedDeviation, 2) * (steps[i] - 1) * (steps[j] - 1) +
          std::pow(kTransferDeviation, 2) * transfer[i] * transfer[j] +
          steps[i] * steps[j] *
              (std::pow(size * prior.walk, 2) * std::min(doublings[i], doublings[j]) +
               std::pow(size * prior.slope, 2) * doublings[i] * doublings[j] +
               std::pow(usual_size * prior.node_walk, 2) * std::min(node_doublings[i], node_doublings[j]));
  const double scatter = std::hypot(prior.scatter, prior.scatter_of_size * size);
  double log_likelihood = 0;
  for (size_t i = 0; i < last; ++i) {
    const double variance = covariance[i][i] + std::pow(scatter * mean[i], 2);
    const double error = points[i].cost_s() / first.cost_s() - mean[i];
    log_likelihood -= (error * error / variance + std::log(variance)) / 2;
    for (size_t j = i + 1; j < count; ++j) {
      const double gain = covariance[i][j] / variance;
      mean[j] += gain * error;
      for (size_t k = i + 1; k < count; ++k) covariance[j][k] -= gain * covariance[i][k];
    }
  }
  return {log_likelihood, mean[last], covariance[last][last] + std::pow(scatter * mean[last], 2)};
}

/// The cost of `least` or more below which a mixture has `probability`, by bisection of its logarithm.
double quantile(const std::vector<Part>& parts, double least, double probability) {
  double low = std::log(least), high = std::log(1e4);
  for (int step = 0; step < 28; ++step) {
    const double middle = (low + high) / 2, cost = std::exp(middle);
    double below = 0, sum = 0;
    for (const Part& part : parts) {
      const double weight = std::exp(part.log_weight);
      const double deviation = std::sqrt(2 * part.variance);
      const double least_share = std::erf((least - part.mean) / deviation);
      below += weight * (std::erf((cost - part.mean) / deviation) - least_share);
      sum += weight * (1 - least_share);
    }
    (below < probability * sum ? low : high) = middle;
  }
  return std::exp(high);
}

/// `count` numbers of standard deviations, evenly within kSizeRange; 0 alone.
std::vector<double> deviations(int count) {
  std::vector<double> values(static_cast<size_t>(count), 0.0);
  for (int i = 0; i < count && count > 1; ++i)
    values[static_cast<size_t>(i)] = kSizeRange * (2.0 * i / (count - 1) - 1);
  return values;
}

constexpr double kBucketBytes = 25 << 20;
constexpr double kForwardShare = 1.0 / 3;
/// Computing is at least this share of the smallest count's step, however dear the table's collectives are.
constexpr double kLeastComputing = 0.05;

struct Communication {
  double exposed_s = 0, hidden_s = 0;
};

Communication communication(const CollectiveTable& table, const CurvePoint& point, double bytes,
                            double computing_s) {
  if (point.gpus == 1) return {};
  const int buckets = static_cast<int>(std::ceil(bytes / kBucketBytes));
  // A network alone joins all GPUs of a curve.
  const int hosts = table.has_points() ? point.nodes : point.gpus;
  const Placement placement{point.gpus, (point.gpus + hosts - 1) / hosts};
  const double cost_s = table.time(CollectiveKind::kAllReduce, placement, bytes / buckets).total_s();
  std::vector<QueuedCollective> queue;
  for (int bucket = 1; bucket <= buckets; ++bucket) {
    const double share = kForwardShare + (1 - kForwardShare) * bucket / buckets;
    queue.push_back({.ready_s = share * computing_s, .cost_s = cost_s});
  }
  const OverlapEnd end = overlap(queue, computing_s, {});
  const double exposed_s = end.communicated_s() - end.computed_s;
  return {exposed_s, buckets * cost_s - exposed_s};
}

constexpr const char* kColumnsAdvice = "data/published/README.md describes the columns.";

/// Columns whose values are the same along a curve of a table without a column `curve`.
constexpr std::string_view kJobColumns[] = {
    "model",           "batch_per_gpu", "hardware", "network",    "precision", "system", "strategy",
    "variable_update", "input",         "compiled", "image_size", "bucket_mb", "setup"};

std::string curve_name(const CsvTable& table) {
  if (table.has("curve")) return table.text("curve");
  std::string name;
  for (const std::string_view column : kJobColumns) {
    const std::string value = table.text(column);
    // "1M/2R" states the count; other setups ("no ddp") are jobs of their own.
    if (value.empty() || (column == "setup" && value.find("M/") != std::string::npos)) continue;
    name += (name.empty() ? "" : " ") + value;
  }
  return name.empty() ? "curve" : name;
}

/// Images per second of the whole job; from seconds where the table has no rate. Nothing: not published.
std::optional<double> rate_of(const CsvTable& table, int gpus) {
  for (const char* column : {"images_per_s", "overall_images_per_s"})
    if (table.has(column)) return table.number(column);
  if (table.has("train_s_per_5120_images")) {
    double seconds = 0;
    for (const char* part : {"train", "communication", "synchronisation"})
      seconds += table.number(fmt::format("{}_s_per_5120_images", part), {}).value_or(0);
    if (seconds <= 0) table.refuse("there is no time");
    return 5120 / seconds;
  }
  const std::optional<double> step_s = table.number(table.first_of({"p50_s", "p75_s", "images_per_s"}));
  const double batch = table.number("batch_per_gpu").value_or(1);
  return step_s ? std::optional(gpus * batch / *step_s) : std::nullopt;
}

}  // namespace

KnownCounts known_counts(std::span<const CurvePoint> known, const CurvePoint& at) {
  if (at.nodes > 1 && !at.transfer_s)
    return known.back().nodes > 1 ? KnownCounts::kSeveralNodes : KnownCounts::kOneNodeForSeveral;
  return known.size() > 1 ? KnownCounts::kSeveral : KnownCounts::kOne;
}

double by_log2(std::span<const CurvePoint> known, int gpus) {
  const CurvePoint& first = known.front();
  const auto doublings = [&](int count) { return std::log2(1.0 * count / first.gpus); };
  double products = 0, squares = 0;
  for (const CurvePoint& point : known) {
    products += doublings(point.gpus) * (point.cost_s() / first.cost_s() - 1);
    squares += std::pow(doublings(point.gpus), 2);
  }
  const double slope = squares > 0 ? products / squares : 0;
  return gpus / (first.cost_s() * std::max(1 + slope * doublings(gpus), 1e-3));
}

Forecast forecast(const Curve& curve, std::span<const CurvePoint> known, const CurvePoint& at,
                  const CurvePrior& prior) {
  const CurvePoint& first = known.front();
  std::vector<CurvePoint> points(known.begin(), known.end());
  points.push_back(at);
  const bool half = std::ranges::any_of(std::initializer_list<const char*>{"fp16", "bf16", "amp"},
                                        [&](const char* name) { return curve.precision.starts_with(name); });
  // Growth with the count and the fixed cost of a step look alike along strong scaling: known counts do not
  // tell the overhead's size, but it is so many seconds of a step.
  const bool strong = curve.is_strong();
  const double step_s = strong && first.batch_per_gpu > 0 ? first.cost_s() * first.batch_per_gpu : kStep_s;
  const double of_job = (half ? prior.half_precision : 0) - std::log(step_s / kStep_s);
  const auto any = [&](auto has) { return std::ranges::any_of(points, has); };
  const int node_sizes =
      any([](const CurvePoint& point) { return point.nodes > 1 && !point.transfer_s; }) ? kNodeSizes : 1;
  const int shares = any([](const CurvePoint& point) { return point.hidden_s > 0; }) ? kUnhiddenShares : 1;
  std::vector<Part> parts;
  for (const double within : deviations(kSizes)) {
    const double log_size = prior.size_deviation * within;
    for (const double between : deviations(node_sizes)) {
      const double log_node_size = prior.node_size + prior.node_size_deviation * between;
      for (int share = 0; share < shares; ++share) {
        const Belief belief{std::exp(of_job + prior.size + log_size), std::exp(of_job + log_node_size),
                            shares > 1 ? 1.0 * share / (shares - 1) : 0};
        parts.push_back(learn(points, prior, belief, std::exp(of_job + prior.size)));
        parts.back().log_weight =
            (strong ? 0 : parts.back().log_weight) - (within * within + between * between) / 2;
      }
    }
  }
  const double likeliest = std::ranges::max(parts, {}, &Part::log_weight).log_weight;
  for (Part& part : parts) part.log_weight -= likeliest;
  std::erase_if(parts, [](const Part& part) { return part.log_weight < -kLeastLogWeight; });
  double least = 1;
  for (const CurvePoint& point : known) least = std::min(least, point.cost_s() / first.cost_s());
  const double base = at.gpus / first.cost_s();
  const KnownCounts counts = known_counts(known, at);
  const auto rate = [&](double probability) {
    return base / quantile(parts, kLeastCost * least, probability);
  };
  const double low = rate(0.95), high = rate(0.05), log2 = by_log2(known, at.gpus);
  double middle = rate(0.5);
  // Where nothing else is told, the mean of several predictors is nearer than each, and beyond two nodes the
  // simplest.
  if (prior.combined && !strong && !at.transfer_s) {
    const double last_efficiency = at.gpus / known.back().cost_s();
    middle = counts == KnownCounts::kSeveralNodes
                 ? log2
                 : std::pow(middle, 0.5) * std::pow(log2, 0.375) * std::pow(last_efficiency, 0.125);
  }
  const auto& [below, above] = prior.widening[static_cast<size_t>(counts)];
  return {middle, middle * std::pow(std::min(1.0, low / middle), below),
          middle * std::pow(std::max(1.0, high / middle), above)};
}

std::vector<CurvePrediction> predict_curves(std::span<const Curve> curves, std::optional<int> known_up_to,
                                            const CurvePrior& prior) {
  std::vector<CurvePrediction> predictions;
  for (const Curve& curve : curves) {
    const int limit = known_up_to.value_or(curve.points.back().gpus / 2);
    const auto beyond = std::ranges::find_if(
        curve.points.begin() + 1, curve.points.end(), [limit](int gpus) { return gpus > limit; },
        &CurvePoint::gpus);
    const std::span<const CurvePoint> known(curve.points.begin(), beyond);
    for (const CurvePoint& point : std::span(beyond, curve.points.end())) {
      predictions.push_back({.curve = curve.name,
                             .gpus = point.gpus,
                             .forecast = forecast(curve, known, point, prior),
                             .measured = point.images_per_s,
                             .known_gpus = known.back().gpus,
                             .known = known_counts(known, point),
                             .efficiency = curve.points.front().cost_s() / point.cost_s(),
                             .strong = curve.is_strong(),
                             .several_nodes = point.nodes > 1,
                             .last_efficiency = point.gpus / known.back().cost_s(),
                             .log2 = by_log2(known, point.gpus)});
    }
  }
  return predictions;
}

ErrorSummary summarize_errors(std::span<const double> errors) {
  return {.mean = std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size()),
          .median = measure::percentile(errors, 50),
          .p90 = measure::percentile(errors, 90)};
}

bool add_transfer(Curve& curve, const CollectiveTable& table) {
  const bool batches_are_known =
      std::ranges::all_of(curve.points, [](const CurvePoint& point) { return point.batch_per_gpu > 0; });
  if (curve.parameters <= 0 || !batches_are_known) return false;
  const double bytes = curve.parameters * (curve.precision == "fp16 all-reduce" ? 2 : 4);
  const CurvePoint& first = curve.points.front();
  const double step_s = first.cost_s() * first.batch_per_gpu;
  double computing_s = step_s;
  // More computing hides more, by less than it is more.
  for (int i = 0; i < 50; ++i)
    computing_s = std::max(kLeastComputing * step_s,
                           step_s - communication(table, first, bytes, computing_s).exposed_s);
  for (CurvePoint& point : curve.points) {
    const Communication found =
        communication(table, point, bytes, computing_s * point.batch_per_gpu / first.batch_per_gpu);
    point.transfer_s = found.exposed_s;
    point.hidden_s = found.hidden_s;
  }
  return true;
}

std::vector<Curve> read_curves(const std::filesystem::path& path) {
  CsvTable table(read_file(path), path.string(), kColumnsAdvice);
  const std::string_view count_column = table.first_of({"gpus", "ranks", "workers"});
  std::vector<Curve> curves;
  std::map<std::string, size_t> places;
  for (size_t row = 0; row < table.size(); ++row) {
    table.select(row);
    const std::string name = curve_name(table);
    if (name.empty()) table.refuse("curve is empty");
    const auto [place, is_new] = places.emplace(name, curves.size());
    if (is_new)
      curves.push_back({name,
                        table.text("model"),
                        table.text("precision"),
                        table.text("source"),
                        table.number("parameters").value_or(0),
                        {}});
    CurvePoint point{.gpus = table.count(count_column),
                     .batch_per_gpu = table.number("batch_per_gpu").value_or(0)};
    // "2M/16G" of a table without a column `nodes`.
    const std::string setup = table.text("setup");
    const auto machines = parse_whole(setup.substr(0, setup.find("M/")), {.least = 1, .most = 1e6});
    point.nodes = table.count("nodes", static_cast<int>(machines.value_or(1)));
    if (point.nodes > point.gpus) table.refuse(fmt::format("{} nodes for {} GPUs", point.nodes, point.gpus));
    const std::optional<double> rate = rate_of(table, point.gpus);
    if (!rate) continue;
    point.images_per_s = *rate;
    curves[place->second].points.push_back(point);
  }
  std::erase_if(curves, [](const Curve& curve) { return curve.points.empty(); });
  for (Curve& curve : curves) {
    std::map<int, std::vector<CurvePoint>> by_count;
    for (const CurvePoint& point : curve.points) by_count[point.gpus].push_back(point);
    curve.points.clear();
    for (const auto& [gpus, repeated] : by_count) {
      std::vector<double> rates;
      for (const CurvePoint& point : repeated) rates.push_back(point.images_per_s);
      curve.points.push_back(repeated.front());
      curve.points.back().images_per_s = measure::percentile(rates, 50);
    }
  }
  return curves;
}

}  // namespace lockstep::predict
