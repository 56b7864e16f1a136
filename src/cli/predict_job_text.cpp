#include "predict_job_text.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/units.h"
#include "lockstep/measure/percentiles.h"
#include "lockstep/results/tables/numbers.h"

namespace lockstep::cli {
namespace {

using predict::JobPrediction;
using predict::PredictedFactors;
using results::Document;
using results::number_text;
using results::share_text;

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

}  // namespace

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

}  // namespace lockstep::cli
