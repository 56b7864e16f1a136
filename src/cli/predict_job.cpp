#include "predict_job.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/base/json_codec.h"
#include "lockstep/base/plain_text.h"
#include "lockstep/base/units.h"
#include "lockstep/measure/series.h"
#include "lockstep/predict/jobs/collective_table.h"
#include "lockstep/predict/jobs/job_model.h"
#include "lockstep/results/files/record_json.h"
#include "lockstep/results/tables/document.h"

#include "commands.h"
#include "console.h"
#include "shared_flags.h"

namespace lockstep::cli {
namespace {

using predict::JobModel;
using predict::JobPrediction;
using predict::PredictedFactors;
using predict::Scenario;
using results::Document;
using results::number_text;
using results::share_text;

/// All that is predicted of one strategy.
struct StrategyForecast {
  predict::JobModel model;
  std::vector<predict::JobPrediction> rows;
  int knee = 0;
  /// Bytes per second that an efficiency of 90 % needs at the last row, and those at present; empty: there
  /// are none, or none suffice.
  std::optional<double> needed_bandwidth;
  std::optional<double> present_bandwidth;
  /// Bytes of the largest message, where less latency would bring more than any bandwidth.
  std::optional<int64_t> latency_decides_bytes;
  /// What was left out, and what the measured collectives say of the link; sentences.
  std::vector<std::string> notes;
  std::vector<predict::ChangeEffect> effects;
  std::optional<Verification> verification;
  std::optional<predict::Simulation> simulation;
  std::optional<double> closed_form;
};

struct NamedFactor {
  const char* name;
  double PredictedFactors::*value;
};

/// Factors this near to 1 say nothing.
constexpr double kShown = 0.015;

constexpr std::array<NamedFactor, 6> kFactors{{{"batch", &PredictedFactors::batch},
                                               {"machine", &PredictedFactors::machine},
                                               {"strategy", &PredictedFactors::strategy},
                                               {"transfer", &PredictedFactors::transfer},
                                               {"stragglers", &PredictedFactors::stragglers},
                                               {"not explained", &PredictedFactors::unexplained}}};

/// Factors with a column: all but a batch that stays and a rest that is nothing.
std::vector<NamedFactor> shown_factors(const std::vector<JobPrediction>& rows, bool strong) {
  std::vector<NamedFactor> shown(kFactors.begin() + (strong ? 0 : 1), kFactors.end());
  if (std::ranges::all_of(
          rows, [](const JobPrediction& row) { return std::abs(row.factors.unexplained - 1) < kShown; }))
    shown.pop_back();
  return shown;
}

/// Why factors are above 100 % in the rows; nothing where none is.
Document above_one(const std::vector<JobPrediction>& rows) {
  std::vector<std::string> names;
  for (const NamedFactor& factor : kFactors) {
    if (std::ranges::any_of(rows,
                            [&](const JobPrediction& row) { return row.factors.*factor.value > 1 + kShown; }))
      names.emplace_back(factor.name);
  }
  if (names.empty()) return {};
  return Document(results::Remark{
      "", fmt::format(
              "Above 100 %: {}. There a rank computes less than the one alone (sharded divides the update; a "
              "larger batch takes less time per sample), the one alone was disturbed, or the model's parts "
              "are longer than the measured step.",
              fmt::join(names, ", "))});
}

std::string gbit_text(double bytes_per_s) {
  return fmt::format("{} Gbit/s", number_text(8e-9 * bytes_per_s));
}

/// "128 ranks would reach 0.71 (0.64 to 0.77); transfer takes most; 90 % needs 38 Gbit/s, now 10."
std::string answer(const StrategyForecast& forecast) {
  const JobPrediction& row = forecast.rows.back();
  std::string text = fmt::format("{} would reach an efficiency of {:.2f} ({:.2f} to {:.2f}), {} {}",
                                 counted(row.placement.ranks, "rank"), row.efficiency, row.low, row.high,
                                 number_text(row.images_per_s), forecast.model.profile().unit);
  const NamedFactor& least = *std::ranges::min_element(
      kFactors, {}, [&](const NamedFactor& factor) { return row.factors.*factor.value; });
  if (row.factors.*least.value < 1)
    text += least.value == &PredictedFactors::unexplained ? "; most of the loss is not explained"
                                                          : fmt::format("; {} takes most", least.name);
  const std::string until = forecast.knee > 0
                                ? fmt::format("and holds up to {}", counted(forecast.knee, "rank"))
                                : std::string("and holds at no number of ranks");
  if (row.efficiency >= predict::kGoodEfficiency) {
    text += forecast.knee >= predict::kMostKnee
                ? fmt::format("; 90 % holds beyond {} ranks", count_text(predict::kMostKnee))
                : fmt::format("; 90 % holds up to {}", counted(forecast.knee, "rank"));
  } else if (forecast.latency_decides_bytes) {
    text += fmt::format("; latency decides, not bandwidth (messages of {}): join them or send fewer; 90 % {}",
                        format_bytes(*forecast.latency_decides_bytes), until.substr(4));
  } else if (forecast.needed_bandwidth) {
    text += fmt::format("; 90 % needs {} in place of {}, {}", gbit_text(*forecast.needed_bandwidth),
                        gbit_text(*forecast.present_bandwidth), until);
  } else {
    text += fmt::format("; 90 % is out of reach of any bandwidth, {}", until);
  }
  return text + ".";
}

std::string interval_text(double low, double high) {
  return fmt::format("{:.0f} to {:.0f} %", 100 * low, 100 * high);
}

Document predictions_of(const StrategyForecast& forecast) {
  const bool strong = std::ranges::any_of(
      forecast.rows, [&](const JobPrediction& row) { return row.batch != forecast.model.profile().batch; });
  const bool compared =
      std::ranges::any_of(forecast.rows, [](const JobPrediction& row) { return row.measured_s.has_value(); });
  results::Table table{.columns = {"ranks", "hosts"}};
  if (strong) table.add_column({"per rank"});
  for (const char* head : {"rate", "efficiency", "90 % interval"}) table.add_column({head});
  const std::vector<NamedFactor> factors = shown_factors(forecast.rows, strong);
  for (const NamedFactor& factor : factors) table.add_column({factor.name});
  if (compared) table.add_column({"measured"});
  table.add_column({"extrapolated", results::kText});
  for (const JobPrediction& row : forecast.rows) {
    std::vector<results::Cell> cells{count_text(row.placement.ranks), count_text(row.placement.hosts())};
    if (strong) cells.emplace_back(fmt::format("{:g}", row.batch));
    cells.emplace_back(number_text(row.images_per_s));
    cells.emplace_back(share_text(row.efficiency));
    cells.emplace_back(interval_text(row.low, row.high));
    for (const NamedFactor& factor : factors) cells.emplace_back(share_text(row.factors.*factor.value));
    if (compared)
      cells.emplace_back(row.measured_s ? number_text(row.images_per_s * row.step_s / *row.measured_s)
                                        : results::kNoValue);
    cells.emplace_back(row.extrapolated.empty() ? results::kNoValue
                                                : fmt::format("{}", fmt::join(row.extrapolated, ", ")));
    table.add_row(std::move(cells));
  }
  Document document(std::move(table));
  const std::string& algorithm = forecast.rows.back().algorithm;
  document.add(results::Remark{
      "",
      fmt::format(
          "{}rate: {} of the whole job. efficiency: against one rank alone; the product of the factors.{} "
          "extrapolated: more ranks or hosts than collectives were measured on, or another batch.",
          strong ? "per rank: batch of a rank. " : "", forecast.model.profile().unit,
          algorithm.empty() ? "" : fmt::format(" Collectives: {}.", algorithm))});
  return document;
}

std::string knee_text(int knee) {
  if (knee == 0) return "none";
  return knee >= predict::kMostKnee ? fmt::format("> {}", count_text(predict::kMostKnee)) : count_text(knee);
}

std::string gain_interval_text(const predict::ChangeEffect& effect) {
  return fmt::format("{:+.1f} to {:+.1f} %", 100 * effect.low, 100 * effect.high);
}

bool is_above_noise(const predict::ChangeEffect& effect) {
  return effect.gain >= kNoGain && effect.low > 0;
}

Document simulation_of(const StrategyForecast& forecast, int ranks) {
  const predict::Simulation& simulation = *forecast.simulation;
  results::Table table{
      .columns = {"steps", "rate", "closed form", "difference", "p50 step", "p99 step", "waiting"}};
  table.add_row({count_text(std::ssize(simulation.step_s)), number_text(simulation.images_per_s),
                 number_text(*forecast.closed_form),
                 results::signed_percent_text(simulation.images_per_s / *forecast.closed_form - 1),
                 results::time_text(measure::percentile(simulation.step_s, 50)),
                 results::time_text(measure::percentile(simulation.step_s, 99)),
                 share_text(simulation.waiting)});
  Document document(results::Heading{fmt::format("Simulation of {}", counted(ranks, "rank"))});
  document.add(std::move(table));
  return document;
}

std::vector<std::string> notes_of(const StrategyForecast& forecast) {
  std::vector<std::string> notes = forecast.notes;
  notes.insert(notes.end(), forecast.model.notes().begin(), forecast.model.notes().end());
  return notes;
}

Json json_of(const JobPrediction& row) {
  Json factors = Json::object();
  for (const NamedFactor& factor : kFactors) {
    std::string key = factor.name;
    std::ranges::replace(key, ' ', '_');
    factors[key] = row.factors.*factor.value;
  }
  return {{"ranks", row.placement.ranks},
          {"hosts", row.placement.hosts()},
          {"batch_per_rank", row.batch},
          {"images_per_s", row.images_per_s},
          {"low", row.images_per_s * row.low / row.efficiency},
          {"high", row.images_per_s * row.high / row.efficiency},
          {"efficiency", row.efficiency},
          {"factors", factors},
          {"step_s", row.step_s},
          {"algorithm", row.algorithm},
          {"extrapolated", row.extrapolated},
          {"measured_step_s", encode(row.measured_s)}};
}

/// Changes of the job of the last row by their gain, behind a sentence on the first. Without `all`, those
/// without a gain above noise are only named.
Document effects_of(const StrategyForecast& forecast, bool all) {
  results::Table table{
      .columns = {
          {"change", results::kText}, "gain", "its 90 % interval", "rate", "efficiency", "90 % up to ranks"}};
  const JobPrediction& now = forecast.rows.back();
  table.add_row({"none", results::kNoValue, results::kNoValue, number_text(now.images_per_s),
                 share_text(now.efficiency), knee_text(forecast.knee)});
  std::vector<std::string> helpless;
  for (const predict::ChangeEffect& effect : forecast.effects) {
    if (!is_above_noise(effect)) helpless.push_back(effect.change);
    if (!all && !is_above_noise(effect)) continue;
    table.add_row({effect.change, results::signed_percent_text(effect.gain), gain_interval_text(effect),
                   number_text(effect.prediction.images_per_s), share_text(effect.prediction.efficiency),
                   knee_text(effect.knee)});
  }
  const predict::JobProfile& profile = forecast.model.profile();
  std::string best_change = "no change is predicted to bring more than noise.";
  const auto best = std::ranges::find_if(forecast.effects, is_above_noise);
  if (best != forecast.effects.end())
    best_change = fmt::format("{} is predicted to bring most, {} ({}).", best->change,
                              results::signed_percent_text(best->gain), gain_interval_text(*best));
  Document document(results::Remark{"", fmt::format("{}, {} at {}: {}", profile.model, profile.strategy,
                                                    counted(now.placement.ranks, "rank"), best_change)});
  if (table.rows.size() == 1) return document;
  document.add(results::Heading{"Changes by their gain", true});
  document.add(std::move(table));
  std::vector<JobPrediction> changed;
  for (const predict::ChangeEffect& effect : forecast.effects) {
    if (all || is_above_noise(effect)) changed.push_back(effect.prediction);
  }
  document.append(above_one(changed));
  if (!helpless.empty())
    document.add(results::Remark{"", fmt::format("No gain above noise: {}.", fmt::join(helpless, ", "))});
  if (!all)
    document.add(results::Remark{"",
                                 "Each change by itself. `predict --what-if --verify` of this file measures "
                                 "those that the machine can run."});
  return document;
}

/// The answer in a sentence, the tables behind it, and notes on what the model does not know.
Document document_of(const PredictJobOptions& options, const StrategyForecast& forecast) {
  const predict::JobProfile& profile = forecast.model.profile();
  Document document(
      results::Heading{fmt::format("{}, {}, from {} with batch {}", profile.model, profile.strategy,
                                   counted(profile.placement.ranks, "rank"), profile.batch)});
  document.add(results::Remark{"", answer(forecast)});
  document.append(predictions_of(forecast));
  document.append(above_one(forecast.rows));
  if (!forecast.effects.empty()) {
    document.add(results::Heading{
        fmt::format("What would help {}", counted(forecast.rows.back().placement.ranks, "rank"))});
    document.append(effects_of(forecast, /*all=*/true));
  }
  if (forecast.verification) document.append(document_of(*forecast.verification));
  if (forecast.simulation) document.append(simulation_of(forecast, *options.simulate));
  for (const std::string& note : notes_of(forecast)) document.add(results::Remark{"Note: ", note});
  return document;
}

Json json_of(const StrategyForecast& forecast) {
  Json rows = Json::array(), effects = Json::array();
  for (const JobPrediction& row : forecast.rows) rows.push_back(json_of(row));
  for (const predict::ChangeEffect& effect : forecast.effects) {
    effects.push_back({{"change", effect.change},
                       {"gain", effect.gain},
                       {"gain_low", effect.low},
                       {"gain_high", effect.high},
                       {"ranks_at_90_percent", effect.knee},
                       {"prediction", json_of(effect.prediction)}});
  }
  const predict::JobProfile& profile = forecast.model.profile();
  Json json{
      {"model", profile.model},
      {"strategy", profile.strategy},
      {"measured_ranks", profile.placement.ranks},
      {"predictions", rows},
      {"ranks_at_90_percent", forecast.knee},
      {"bandwidth_bits_per_s", forecast.present_bandwidth ? Json(8 * *forecast.present_bandwidth) : Json()},
      {"bandwidth_for_90_percent_bits_per_s",
       forecast.needed_bandwidth ? Json(8 * *forecast.needed_bandwidth) : Json()},
      {"notes", notes_of(forecast)}};
  if (!forecast.effects.empty()) json["what_if"] = effects;
  if (forecast.verification) json["verification"] = json_of(*forecast.verification);
  if (forecast.simulation) {
    json["simulation"] = {{"images_per_s", forecast.simulation->images_per_s},
                          {"closed_form_images_per_s", *forecast.closed_form},
                          {"waiting", forecast.simulation->waiting},
                          {"step_s", forecast.simulation->step_s}};
  }
  return json;
}

constexpr const char* kUsualChanges = "usual";

/// Times between a table's collective and the training's own from which the link is worth a note.
constexpr double kOtherLink = 2;
/// A factor of transfer above which neither latency nor bandwidth decides.
constexpr double kGoodTransfer = 0.95;

/// 1.3 of "1.3x".
double factor_of(const std::string& flag, const std::string& text) {
  if (text.empty()) return 1;
  const std::string number = text.ends_with('x') ? text.substr(0, text.size() - 1) : text;
  const auto factor = parse_number(number, {.most = 1e6, .above = true});
  if (!factor) throw ConfigError(fmt::format("{} takes a factor such as 1.3x, not '{}'", flag, text));
  return *factor;
}

predict::CollectiveTable table_for(const PredictJobOptions& options, predict::JobProfile& profile) {
  predict::CollectiveTable table(profile.backend);
  const bool measured_alone = !options.collectives.empty();
  const auto points = measured_alone
                          ? predict::read_collectives(options.collectives, profile.backend, print_note)
                          : profile.points;
  for (const predict::CollectivePoint& point : points) table.add(point);
  // Collectives that were measured by themselves do not know what computing costs them.
  if (measured_alone && table.has_points())
    profile.loss.network =
        (1 + profile.loss.network) * (1 + predict::network_loss(table, profile.points, profile.placement)) -
        1;
  if (!options.network.empty())
    table.set_network(predict::parse_network(options.network), profile.placement.hosts() > 1);
  return table;
}

/// What times of collectives by themselves say of the training's largest one.
std::string link_note(const predict::CollectiveTable& idle, const predict::JobProfile& profile) {
  if (!idle.has_points() || profile.points.empty()) return {};
  const predict::CollectivePoint& own = *std::ranges::max_element(
      profile.points, {}, [](const auto& point) { return std::pair(point.ranks, point.bytes); });
  const predict::Placement placement{own.ranks, std::min(profile.placement.per_host, own.ranks)};
  const double idle_s = idle.time(own.kind, placement, own.bytes).total_s();
  if (std::max(own.time_s, idle_s) < kOtherLink * std::min(own.time_s, idle_s)) return {};
  return fmt::format(
      "The link of --collectives is not {}: it gives {} GB/s for {} of {}, the training got {}.",
      own.time_s > idle_s ? "the limit" : "the training's", results::number_text(1e-9 * own.bytes / idle_s),
      to_string(own.kind), format_bytes(static_cast<int64_t>(own.bytes)),
      results::number_text(1e-9 * own.bytes / own.time_s));
}

Scenario scenario_of(const PredictJobOptions& options, const predict::JobProfile& profile, int ranks) {
  const int per_host = options.per_host.value_or(profile.placement.per_host);
  return {.placement = {ranks, std::min(per_host, ranks)},
          .global_batch = static_cast<double>(options.global_batch.value_or(0))};
}

StrategyForecast forecast_of(const PredictJobOptions& options, const results::RunRecord& record,
                             predict::JobProfile profile) {
  std::vector<int> numbers = options.ranks;
  if (numbers.empty() && options.verify.wanted) numbers = {profile.placement.ranks};
  if (numbers.empty()) numbers = {2, 4, 8, 16, 32, 64, 128};
  predict::CollectiveTable table = table_for(options, profile);
  const std::string of_link = options.collectives.empty() ? "" : link_note(table, profile);
  StrategyForecast forecast{.model = JobModel(std::move(profile), std::move(table))};
  const JobModel& model = forecast.model;
  if (!of_link.empty()) forecast.notes.push_back(of_link);
  // No byte of ranks that share a host crosses a network.
  const auto is_unknown = [&](int ranks) {
    return ranks > 1 && model.profile().shape.gradients && !model.table().has_points() &&
           scenario_of(options, model.profile(), ranks).placement.hosts() == 1;
  };
  std::vector<int> on_one_host;
  std::ranges::copy_if(numbers, std::back_inserter(on_one_host), is_unknown);
  std::erase_if(numbers, is_unknown);
  if (!on_one_host.empty()) {
    const std::string sentence = fmt::format(
        "{} ranks share a host: none of their bytes crosses the network, and what they cost "
        "within a host was not measured",
        fmt::join(on_one_host, ", "));
    if (numbers.empty())
      throw ConfigError(sentence, "Measure two ranks of a host with --breakdown, or give --collectives.");
    forecast.notes.push_back(sentence + ": left out.");
  }
  for (const int ranks : numbers)
    forecast.rows.push_back(model.predict(scenario_of(options, model.profile(), ranks)));
  Scenario last = scenario_of(options, model.profile(), numbers.back());
  const int per_host = options.per_host.value_or(model.profile().placement.per_host);
  Scenario any = last;
  any.placement.per_host = per_host;
  forecast.knee = model.knee(any, predict::kGoodEfficiency);
  if (last.placement.ranks > 1 && model.profile().shape.gradients) {
    const double present = model.present_link(last).bytes_per_s;
    Scenario quick = last, wide = last;
    quick.latency = 0;
    wide.bandwidth = 1e6;
    if (const auto& buckets = model.profile().buckets; !buckets.empty() &&
                                                       model.efficiency(quick) > model.efficiency(wide) &&
                                                       forecast.rows.back().factors.transfer < kGoodTransfer)
      forecast.latency_decides_bytes =
          static_cast<int64_t>(std::ranges::max(buckets, {}, &predict::GradientBucket::bytes).bytes);
    const auto times = model.bandwidth_for(last, predict::kGoodEfficiency);
    if (std::isfinite(present)) forecast.present_bandwidth = present;
    if (std::isfinite(present) && times) forecast.needed_bandwidth = *times * present;
  }
  if (!options.what_if.empty()) {
    forecast.effects =
        predict::effects_of(model, any,
                            options.what_if == kUsualChanges ? predict::usual_changes(model.profile())
                                                             : split_at_commas(options.what_if));
  }
  if (options.verify.wanted)
    forecast.verification =
        verify_effects(options.verify, record, options.record, model, any, forecast.effects);
  if (options.simulate) {
    const Scenario simulated = scenario_of(options, model.profile(), *options.simulate);
    forecast.simulation = predict::simulate(model, simulated,
                                            {.steps = options.steps,
                                             .seed = options.seed,
                                             .slow_rank = factor_of("--slow-rank", options.slow_rank),
                                             .thin_link = factor_of("--thin-link", options.thin_link),
                                             .lost_host_after = options.lose_host});
    forecast.closed_form = model.images_per_s(simulated);
  }
  return forecast;
}

/// How the speed-up of a measured job goes on, to 8 times its ranks; empty: not known.
std::vector<results::Forecast> speedups_of(PredictJobOptions options, const results::RunRecord& record,
                                           const predict::JobProfile& profile) {
  for (const int times : {2, 4, 8}) {
    const int ranks = times * profile.placement.ranks, batches = ranks * profile.setup.accumulate;
    if (batches <= options.global_batch.value_or(batches)) options.ranks.push_back(ranks);
  }
  if (!profile.speedup || options.ranks.size() == 1) return {};
  const StrategyForecast forecast = forecast_of(options, record, profile);
  std::vector<results::Forecast> speedups;
  for (const predict::JobPrediction& row : forecast.rows) {
    const double speedup = *profile.speedup * row.images_per_s / forecast.rows.front().images_per_s;
    const double low = speedup * row.low / row.efficiency, high = speedup * row.high / row.efficiency;
    if (!(low > 0) || !std::isfinite(high)) return {};
    speedups.push_back({row.placement.ranks, speedup, low, high});
  }
  return speedups;
}

void check_verify(PredictJobOptions& options) {
  if (!options.verify.wanted) return;
  if (!options.network.empty())
    throw ConfigError("--verify measures on the network that is here, not on that of --network",
                      "Leave out --network.");
  if (options.what_if.empty()) options.what_if = kUsualChanges;
}

}  // namespace

Outlook outlook_of(const results::RunRecord& record, const std::string& path) {
  Outlook outlook;
  std::optional<StrategyForecast> largest;
  std::set<std::tuple<std::string, std::string, int>> jobs;
  std::string missing;
  const auto size_of = [](const StrategyForecast& job) {
    return std::pair(job.rows.front().placement.ranks, job.rows.front().images_per_s);
  };
  for (const results::Run& run : record.runs) {
    // Under strong scaling the batch of a rank is that of the most ranks.
    const int batch = run.global_batch > 0 ? 0 : run.batch_per_rank;
    if (run.ranks == 1 || run.role() != results::Role::kStrategy || !predict::is_usable(run) ||
        !jobs.insert({run.model, run.strategy, batch}).second)
      continue;
    try {
      const predict::JobProfile profile =
          predict::read_profiles(record, path, {.model = run.model, .strategy = run.strategy, .batch = batch})
              .front();
      PredictJobOptions options;
      options.ranks = {profile.placement.ranks};
      if (profile.setup.global_batch > 0) options.global_batch = profile.setup.global_batch;
      auto speedups = speedups_of(options, record, profile);
      if (!speedups.empty()) outlook.forecasts.push_back(std::move(speedups));
      options.what_if = kUsualChanges;
      StrategyForecast job = forecast_of(options, record, profile);
      if (!largest || size_of(job) > size_of(*largest)) largest = std::move(job);
    } catch (const Error& error) {
      missing = error.what();
    }
  }
  if (largest) {
    outlook.help = effects_of(*largest, /*all=*/false);
  } else if (!missing.empty()) {
    outlook.help.add(results::Remark{"", fmt::format("Not known: {}.", missing)});
  }
  return outlook;
}

int run_predict_job(const PredictJobOptions& asked, const std::string& json, bool markdown) {
  PredictJobOptions options = asked;
  check_verify(options);
  for (const int ranks : options.ranks) {
    // Smaller batches have an error of their own.
    if (const int images = options.global_batch.value_or(0); images > ranks && images % ranks != 0)
      throw ConfigError(fmt::format("--global-batch {} has unequal parts for {} ranks", images, ranks),
                        "Give a multiple of --ranks.");
  }
  results::RunRecord record = results::read_record(options.record);
  for (results::Run& run : record.runs) {
    if (!predict::knows_hosts(run) && options.per_host)
      run.hosts = (run.ranks + *options.per_host - 1) / *options.per_host;
  }
  const auto profiles = predict::read_profiles(
      record, options.record,
      {.model = options.model, .strategy = options.strategy, .batch = options.batch.value_or(0)});
  Document document;
  Json list = Json::array();
  std::optional<int> signal;
  for (const predict::JobProfile& profile : profiles) {
    const StrategyForecast forecast = forecast_of(options, record, profile);
    document.append(document_of(options, forecast));
    list.push_back(json_of(forecast));
    if (forecast.verification) signal = forecast.verification->interrupted_by;
    if (signal) break;
  }
  if (json.empty())
    print_result(results::to_text(document, stdout_form(markdown)));
  else
    write_result(json, json_text({{"jobs", list}}));
  return signal ? 128 + *signal : kExitDone;
}

void add_predict_job_flags(Flags& flags, PredictJobOptions& options) {
  const FlagUse verifying{.needs = "--verify"}, simulating{.needs = "--simulate"};
  flags.begin_group("A job from its breakdown");
  flags.add("run", options.record,
            "a result with a breakdown: of 'lockstep bench --breakdown', 'record' or 'import'",
            {.value = "RUN.json"});
  flags.add("--ranks", options.ranks,
            "numbers of ranks to predict [2, 4, ..., 128; to --verify: as measured]",
            {.numbers = counts_up_to(1 << 20)});
  flags.add("--per-host", options.per_host, "ranks that share a host [as measured]",
            {.numbers = counts_up_to(4096)});
  flags.add("--global-batch", options.global_batch,
            "strong scaling: images per step of the whole job [weak scaling: the batch per rank stays]",
            {.numbers = counts_up_to(1e9)});
  flags.add("--network", options.network,
            "bandwidth of a host and latency of a message between hosts: 25gbit,20us [as measured]",
            {.value = "LINK", .use = FlagUse{.modes = {"--curves"}}});
  flags.add("--collectives", options.collectives,
            "measured times of collectives: a file of 'lockstep collectives' (with --import and --ranks from "
            "what OSU printed), a list in JSON, or what nccl-tests printed [the run's own buckets]",
            {.value = "FILE", .use = FlagUse{.modes = {"--curves"}}});
  flags.add("--model", options.model, "network, where the file holds several", {.value = "NAME"});
  flags.add("--strategy", options.strategy, "strategy to predict [all in the file]", {.value = "NAME"});
  flags.add("--batch", options.batch, "images per rank and batch, where the file holds several",
            {.numbers = counts_up_to(kMostImages)});
  flags.add("--what-if", options.what_if,
            "effects of changes at the last of --ranks, each by itself: bandwidth=2x,latency=0,bucket=10,"
            "strategy=sharded,sync-every=16,wire=bf16,wire=powersgd:4,no-straggler,batch=64,compute=2x,ranks="
            "8 [without a value: the usual ones]",
            {.value = "CHANGES", .alone = kUsualChanges});
  flags.add_switch("--verify", options.verify.wanted,
                   "measure those changes that this machine can run, in launches in turn with the unchanged "
                   "job, and print both gains");
  flags.add("--rounds", options.verify.rounds, "launches of each that --verify makes",
            {.numbers = counts_up_to(1000), .use = verifying});
  flags.add("--row-time", options.verify.row_time_s, "seconds after which such a launch ends in any case",
            {.numbers = times_from(0), .use = verifying});
  flags.add_switch("--dry-run", options.verify.dry_run,
                   "print what --verify would launch, and measure nothing", verifying);
  flags.add("--simulate", options.simulate, "simulate so many ranks bucket by bucket, beside the formulas",
            {.numbers = counts_up_to(1 << 16)});
  flags.add("--steps", options.steps, "steps to simulate",
            {.numbers = counts_up_to(kMostSteps), .use = simulating});
  flags.add("--seed", options.seed, "seed of the simulation's noise", {.numbers = kSeeds, .use = simulating});
  flags.add("--slow-rank", options.slow_rank, "simulate a rank that computes so many times as long: 1.3x",
            {.value = "FACTOR", .use = simulating});
  flags.add("--thin-link", options.thin_link, "simulate a link with this share of the bandwidth: 0.5x",
            {.value = "FACTOR", .use = simulating});
  flags.add("--lose-host", options.lose_host, "simulate that a host is lost after so many steps",
            {.value = "STEPS", .numbers = counts_up_to(kMostSteps), .use = simulating});
}

}  // namespace lockstep::cli
