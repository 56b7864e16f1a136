#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/number_range.h"
#include "lockstep/measure/series.h"
#include "lockstep/predict/jobs/job_model.h"

namespace lockstep::predict {
namespace {

/// Standard deviations between which 90 % of a normal distribution lie.
constexpr double k90Percent = 1.645;
constexpr NumberRange kAboveZero{.most = 1e9, .above = true};
constexpr NumberRange kLowRanks{.least = 1, .most = 32};

[[noreturn]] void refuse_change(const std::string& change) {
  throw ConfigError(
      fmt::format("--what-if does not know '{}'", change),
      "It takes bandwidth=2x, bandwidth=25gbit, latency=0, latency=0.5x, bucket=10, strategy=sharded, "
      "shard=parameters, sync-every=16, wire=bf16, wire=powersgd:4, no-straggler, batch=64, compute=2x and "
      "ranks=8.");
}

/// 2 of "2x".
std::optional<double> parse_times(const std::string& text) {
  if (!text.ends_with('x')) return std::nullopt;
  return parse_number(text.substr(0, text.size() - 1), kAboveZero);
}

std::optional<double> number_before(const std::string& text, const char* unit) {
  if (!text.ends_with(unit)) return std::nullopt;
  return parse_number(text.substr(0, text.size() - std::string_view(unit).size()), kAboveZero);
}

/// Bytes per second of "25gbit", "500mbit"; 0 for any other text.
double parse_bandwidth(const std::string& text) {
  for (const auto& [unit, bits] : {std::pair{"gbit", 1e9}, {"mbit", 1e6}}) {
    if (const auto number = number_before(text, unit)) return *number * bits / 8;
  }
  return 0;
}

/// Throws ConfigError where it is not known.
double present_bandwidth(const JobModel& model, const Scenario& scenario, const std::string& change) {
  if (scenario.placement.ranks == 1)
    throw ConfigError(fmt::format("{}: one rank has no link", change), "Give --ranks 2 or more.");
  const double bandwidth = model.present_link(scenario).bytes_per_s;
  if (std::isfinite(bandwidth) && bandwidth > 0) return bandwidth;
  throw ConfigError(fmt::format("{}: the measured costs do not tell the present bandwidth", change),
                    "Give a factor, as bandwidth=2x, or the present network (--network 10gbit,20us).");
}

}  // namespace

Link parse_network(const std::string& text) {
  const size_t comma = text.find(',');
  Link link{.latency_s = 0, .bytes_per_s = parse_bandwidth(text.substr(0, comma))};
  std::optional<double> latency_s;
  if (comma != std::string::npos) {
    const std::string latency = text.substr(comma + 1);
    latency_s = number_before(latency, "us");
    if (latency_s) {
      *latency_s *= 1e-6;
    } else if ((latency_s = number_before(latency, "ms"))) {
      *latency_s *= 1e-3;
    }
  }
  if (link.bytes_per_s <= 0 || !latency_s)
    throw ConfigError(fmt::format("--network takes a bandwidth and a latency, not '{}'", text),
                      "For example --network 25gbit,20us.");
  link.latency_s = *latency_s;
  return link;
}

Scenario changed(const JobModel& model, Scenario scenario, const std::string& change) {
  const size_t equals = change.find('=');
  const std::string key = change.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : change.substr(equals + 1);
  const std::optional<double> times = parse_times(value);
  const std::optional<double> number = parse_number(value, kAboveZero);
  const JobProfile& profile = model.profile();
  if (change == "no-straggler") {
    scenario.stragglers = false;
  } else if (key == "bandwidth" && times) {
    scenario.bandwidth *= *times;
  } else if (key == "bandwidth" && parse_bandwidth(value) > 0) {
    scenario.bandwidth = parse_bandwidth(value) / present_bandwidth(model, scenario, change);
  } else if (key == "latency" && (times || value == "0")) {
    scenario.latency *= times.value_or(0);
  } else if (key == "bucket" && number) {
    if (!profile.shape.has_buckets)
      throw ConfigError(
          fmt::format("{} has no buckets, so that {} changes nothing", profile.strategy, change),
          "Predict a strategy that has --bucket-mb.");
    scenario.bucket_mb = *number;
  } else if (key == "strategy" && !value.empty()) {
    scenario.strategy = value;
  } else if (key == "shard" && (value == "optimizer" || value == "gradients" || value == "parameters")) {
    scenario.strategy = value == "optimizer" ? "zero1" : value == "gradients" ? "zero2" : "zero3";
  } else if (key == "wire" && (value == "bf16" || value == "fp16" || value == "fp32")) {
    scenario.wire = (value == "fp32" ? 1 : 0.5) / profile.wire;
  } else if (key == "wire" && value.starts_with("powersgd:") && parse_number(value.substr(9), kLowRanks)) {
    const std::string& strategy = scenario.strategy.empty() ? profile.strategy : scenario.strategy;
    if (strategy != "ddp" && strategy != "replicated")
      throw ConfigError(fmt::format("{} has no {}", strategy, change),
                        "It is an option of ddp and replicated.");
    scenario.powersgd = static_cast<int>(*parse_number(value.substr(9), kLowRanks));
  } else if (key == "sync-every" && number && *number >= 1 && *number == std::floor(*number)) {
    scenario.strategy = "local_sgd";
    scenario.sync_every = static_cast<int>(*number);
  } else if (key == "batch" && (times || number)) {
    const double batch = times ? *times * model.batch_of(scenario) : *number;
    (scenario.global_batch > 0 ? scenario.global_batch : scenario.batch) =
        scenario.global_batch > 0 ? batch * scenario.placement.ranks * profile.setup.accumulate : batch;
  } else if (key == "ranks" && number && *number >= 1 && *number == std::floor(*number) &&
             *number <= kMostKnee) {
    scenario.placement.ranks = static_cast<int>(*number);
  } else if (key == "compute" && times) {
    scenario.compute *= *times;
  } else {
    refuse_change(change);
  }
  return scenario;
}

std::vector<ChangeEffect> effects_of(const JobModel& model, const Scenario& scenario,
                                     const std::vector<std::string>& changes) {
  Scenario full = scenario;
  full.placement.per_host = std::min(full.placement.per_host, full.placement.ranks);
  const JobPrediction unchanged = model.predict(full);
  std::vector<ChangeEffect> effects;
  for (const std::string& change : changes) {
    Scenario other = changed(model, scenario, change);
    ChangeEffect effect{.change = change, .knee = model.knee(other, kGoodEfficiency)};
    other.placement.per_host = std::min(other.placement.per_host, other.placement.ranks);
    effect.prediction = model.predict(other);
    effect.gain = effect.prediction.images_per_s / unchanged.images_per_s - 1;
    std::vector<double> deviations;
    for (size_t i = 0; i < unchanged.drawn_s.size(); ++i)
      deviations.push_back(std::log(unchanged.drawn_s[i] / unchanged.step_s * effect.prediction.step_s /
                                    effect.prediction.drawn_s[i]));
    const auto end_of_interval = [&](double percent, double sign) {
      const double shared = std::max(0.0, sign * measure::percentile(deviations, percent));
      return (1 + effect.gain) * std::exp(sign * std::hypot(shared, k90Percent * model.misfit())) - 1;
    };
    effect.low = end_of_interval(5, -1);
    effect.high = end_of_interval(95, 1);
    effects.push_back(std::move(effect));
  }
  std::ranges::stable_sort(effects, std::ranges::greater{}, &ChangeEffect::gain);
  return effects;
}

std::vector<std::string> usual_changes(const JobProfile& profile) {
  std::vector<std::string> changes{"bandwidth=2x", "latency=0", "compute=2x", "batch=2x", "no-straggler"};
  if (!profile.shape.gradients) return changes;
  if (profile.shape.has_buckets) changes.insert(changes.end(), {"bucket=10", "bucket=100"});
  changes.emplace_back(profile.strategy == "sharded" ? "strategy=replicated" : "strategy=sharded");
  if (profile.shape.has_wire && profile.wire == 1) changes.emplace_back("wire=bf16");
  return changes;
}

}  // namespace lockstep::predict
