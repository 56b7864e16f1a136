#include <algorithm>
#include <cmath>
#include <ranges>
#include <sstream>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/names.h"
#include "lockstep/base/plain_text.h"
#include "lockstep/base/units.h"
#include "lockstep/measure/compare.h"
#include "lockstep/results/files/record_json.h"
#include "lockstep/results/record/launches.h"
#include "lockstep/results/tables/document.h"
#include "lockstep/strategies/strategy_options.h"

#include "bench_options.h"
#include "compare_turns.h"
#include "console.h"
#include "predict_job.h"

namespace lockstep::cli {
namespace {

using predict::JobModel;
using predict::Scenario;

/// The options of a row that `strategy` has.
Arguments options_for(const std::string& strategy, const std::string& row_options) {
  std::istringstream text(row_options);
  Arguments words;
  const strategies::OptionInfo* option = nullptr;
  for (std::string word; text >> word;) {
    if (word.starts_with("--")) {
      const auto& all = strategies::option_infos();
      const auto found = std::ranges::find(all, word, &strategies::OptionInfo::flag);
      option = found != all.end() && found->concerns(strategy) ? &*found : nullptr;
    }
    if (option != nullptr) words.push_back(word);
  }
  return words;
}

/// `lockstep bench` with the settings of a row. A replay has its own images, precision and input.
Arguments command_of(const results::Setup& row, const std::string& network, bool replayed) {
  Arguments command{"lockstep", "bench", "--model", network, "--lr", fmt::format("{}", row.learning_rate)};
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) command.insert(command.end(), {flag, value});
  };
  // 0: not known, or not limited.
  const auto add_above_0 = [&](const char* flag, double value) {
    if (value > 0) add(flag, fmt::format("{}", value));
  };
  add("--backend", row.backend);
  add("--device", row.device);
  add_above_0("--threads", row.threads_per_rank);
  add_above_0("--bucket-mb", row.bucket_mb);
  add("--accumulate", fmt::format("{}", row.accumulate));
  if (replayed) return command;
  add("--precision", row.precision);
  add("--kernels", row.kernels);
  add("--memory-format", row.memory_format);
  add_above_0("--image-size", row.image_size);
  add("--momentum", fmt::format("{}", row.momentum));
  add("--weight-decay", fmt::format("{}", row.weight_decay));
  add_above_0("--grad-clip", row.grad_clip);
  add("--input", row.input);
  add("--data", row.data);
  std::istringstream words(row.input_options);
  for (std::string word; words >> word;) command.push_back(word);
  if (row.nesterov) command.emplace_back("--nesterov");
  if (row.cuda_graph) command.emplace_back("--cuda-graph");
  return command;
}

/// `command` for a scenario. Throws ConfigError for what no flag changes.
Arguments changed_command(Arguments command, const results::Setup& row, const JobModel& model,
                          const Scenario& scenario, const std::string& change) {
  if (scenario.placement.hosts() > 1)
    throw ConfigError(fmt::format("--verify has one host, and the job {}", scenario.placement.hosts()),
                      "Give --per-host as many as --ranks.");
  if (scenario.bandwidth != 1 || scenario.latency != 1) throw ConfigError("the network is what it is");
  if (scenario.compute != 1) throw ConfigError("the processors are what they are");
  if (!scenario.stragglers) throw ConfigError("ranks differ here");
  const double batch = model.batch_of(scenario);
  if (batch != std::floor(batch)) throw ConfigError(fmt::format("a rank cannot have {:g} images", batch));
  const std::string strategy = scenario.strategy.empty() ? model.profile().strategy : scenario.strategy;
  const Arguments of_strategy = options_for(strategy, row.strategy_options);
  command.insert(command.end(), of_strategy.begin(), of_strategy.end());
  Arguments flags{"--strategy", strategy,
                  "--ranks",    fmt::format("{}", scenario.placement.ranks),
                  "--batch",    fmt::format("{:.0f}", batch)};
  if (scenario.bucket_mb > 0)
    flags.insert(flags.end(), {"--bucket-mb", fmt::format("{}", scenario.bucket_mb)});
  if (scenario.sync_every > 0)
    flags.insert(flags.end(), {"--sync-every", std::to_string(scenario.sync_every)});
  if (change.starts_with("wire=")) flags.insert(flags.end(), {"--wire", change.substr(change.find('=') + 1)});
  return with_flags(command, flags);
}

/// Throws ConfigError or BackendMissing where the bench cannot run on this machine.
void check_here(Arguments command, bool dry_run) {
  command.emplace_back("--no-controls");
  const std::optional<BenchPlan> plan = plan_bench(command);
  if (plan->job.site.environment)
    throw ConfigError("--verify starts every launch itself, and a launcher started this one",
                      "Run it without mpirun, srun or torchrun.");
  const int cores = plan->job.site.machine.cores;
  if (!plan->job.site.on_gpus() && plan->job.ranks > cores)
    throw ConfigError(fmt::format("{} share {}", counted(plan->job.ranks, "rank"), counted(cores, "core")),
                      "Give --ranks of this machine; --verify measures at the last of them.");
  if (!dry_run) check_start(*plan);
}

/// Seconds of the whole job for an image, one list for each launch.
std::vector<std::vector<double>> image_times(const TurnSide& side) {
  std::vector<std::vector<double>> times;
  if (!std::filesystem::exists(side.file)) return times;
  const results::RunRecord record = results::read_record(side.file);
  for (const double rate : results::launch_rates(record.runs.front())) {
    if (rate > 0) times.push_back({1 / rate});
  }
  return times;
}

double mean_rate(const std::vector<std::vector<double>>& times) {
  double sum_s = 0;
  for (const auto& launch : times) sum_s += launch.front();
  return times.empty() ? 0 : static_cast<double>(times.size()) / sum_s;
}

void take_gain(VerifiedChange& change, std::vector<std::vector<double>> base,
               std::vector<std::vector<double>> test) {
  const size_t pairs = std::min(base.size(), test.size());
  if (pairs == 0) return;
  base.resize(pairs);
  test.resize(pairs);
  change.images_per_s = mean_rate(test);
  if (pairs == 1) {
    change.gain = change.images_per_s / mean_rate(base) - 1;
    return;
  }
  const measure::Comparison compared = measure::compare(base, test, {.paired = true});
  change.gain = 1 / compared.ratio - 1;
  if (const auto& ratio = compared.ratio_interval)
    change.gain_interval = measure::Interval{1 / ratio->upper - 1, 1 / ratio->lower - 1, 0};
}

/// Launches the sides in turn, `changes` in their order behind `base`, until the rounds are over or a signal
/// comes. A change whose launch failed is left out from then on.
void take_rounds(const PredictVerifyOptions& options, const TurnSide& base, std::vector<TurnSide> sides,
                 std::vector<VerifiedChange*> changes, const std::filesystem::path& log,
                 Verification& verification) {
  const size_t launches = static_cast<size_t>(options.rounds) * (sides.size() + 1);
  BenchLauncher launcher(log, fmt::format("{}", launches));
  const auto launch_one = [&](size_t index) {
    if (index == 0) return launcher.launch(base);
    VerifiedChange& change = *changes[index - 1];
    if (!change.missing.empty()) return true;
    try {
      return launcher.launch(sides[index - 1]);
    } catch (const Error& error) {
      change.missing = error.what();
      return true;
    }
  };
  for (; verification.rounds < options.rounds; ++verification.rounds) {
    for (size_t i = 0; i <= sides.size(); ++i) {
      if (launch_one(verification.rounds % 2 == 0 ? i : sides.size() - i)) continue;
      verification.interrupted_by = launcher.interrupted_by();
      return;
    }
  }
}

/// -1, 0 or 1.
int sign_of(double gain) {
  return gain > kNoGain ? 1 : gain < -kNoGain ? -1 : 0;
}

}  // namespace

bool has_right_sign(const VerifiedChange& change) {
  return sign_of(*change.gain) == sign_of(change.predicted_gain);
}

bool is_met(const VerifiedChange& change) {
  return std::abs(*change.gain - change.predicted_gain) <= kMetGain;
}

Verification verify_effects(const PredictVerifyOptions& options, const results::RunRecord& record,
                            const std::string& path, const JobModel& model, const Scenario& scenario,
                            const std::vector<predict::ChangeEffect>& effects) {
  const results::Setup& row = model.profile().setup;
  const std::string replay = "replay:" + path;
  bool replayed = record.source == results::kRecordedSource;
  Verification verification{.predicted_images_per_s = model.images_per_s(scenario)};
  const auto command_at = [&](const Scenario& at, const std::string& change) {
    Arguments command =
        changed_command(command_of(row, replayed ? replay : row.model, replayed), row, model, at, change);
    check_here(command, options.dry_run);
    return command;
  };
  try {
    verification.command = command_at(scenario, "");
  } catch (const ConfigError&) {
    if (replayed) throw;
    replayed = true;
    verification.command = command_at(scenario, "");
    print_note(fmt::format("{} is not at hand as it was measured: its steps are replayed", row.model));
  }
  const TurnFolder folder("", false);
  const TurnSide base = side_of("unchanged", verification.command, folder.base(), options.row_time_s);
  for (const predict::ChangeEffect& effect : effects) {
    VerifiedChange& change =
        verification.changes.emplace_back(VerifiedChange{effect.change, effect.gain, {}, {}, {}, {}, 0});
    try {
      change.command = command_at(predict::changed(model, scenario, effect.change), effect.change);
    } catch (const Error& error) {
      change.missing = fmt::format("cannot run here: {}", error.what());
    }
  }
  if (options.dry_run) return verification;

  std::vector<TurnSide> sides;
  std::vector<VerifiedChange*> measured;
  for (VerifiedChange& change : verification.changes) {
    if (change.command.empty()) continue;
    sides.push_back(side_of(change.change, change.command,
                            folder.folder() / fmt::format("{}.json", sides.size()), options.row_time_s));
    measured.push_back(&change);
  }
  take_rounds(options, base, sides, measured, folder.log(), verification);
  const auto base_times = image_times(base);
  verification.images_per_s = mean_rate(base_times);
  for (size_t i = 0; i < sides.size(); ++i) take_gain(*measured[i], base_times, image_times(sides[i]));
  return verification;
}

results::Document document_of(const Verification& verification) {
  results::Document document(results::Heading{"Predicted beside measured on this machine"});
  if (verification.images_per_s == 0) {
    results::Table table{.columns = {{"change", results::kText}, {"launch", results::kText}}};
    table.add_row({"none", command_text(verification.command)});
    for (const VerifiedChange& change : verification.changes)
      table.add_row({change.change, change.command.empty() ? change.missing : command_text(change.command)});
    document.add(std::move(table));
    return document;
  }
  results::Table table{.columns = {{"change", results::kText},
                                   "rate",
                                   "predicted gain",
                                   "measured gain",
                                   "95 % interval",
                                   {"", results::kText}}};
  table.add_row(
      {"none", results::number_text(verification.images_per_s), results::kNoValue, results::kNoValue,
       results::kNoValue,
       fmt::format("predicted rate {}", results::number_text(verification.predicted_images_per_s))});
  size_t measured = 0, right = 0, met = 0;
  for (const VerifiedChange& change : verification.changes) {
    table.add_row(
        {change.change, change.gain ? results::number_text(change.images_per_s) : results::kNoValue,
         results::signed_percent_text(change.predicted_gain), results::signed_percent_text(change.gain),
         change.gain_interval ? fmt::format("{:+.1f} to {:+.1f} %", 100 * change.gain_interval->lower,
                                            100 * change.gain_interval->upper)
                              : results::kNoValue,
         change.missing});
    if (!change.gain) continue;
    ++measured;
    right += has_right_sign(change) ? 1 : 0;
    met += is_met(change) ? 1 : 0;
  }
  document.add(std::move(table));
  document.add(results::Remark{
      "", fmt::format(
              "{} in turn{}. Of {} the sign is right in {}, the gain within 5 points in {}; below 1 % "
              "counts as no gain.",
              counted(verification.rounds, "round"), verification.interrupted_by ? ", ended by a signal" : "",
              counted(static_cast<int64_t>(measured), "measured change"), right, met)});
  return document;
}

Json json_of(const Verification& verification) {
  Json changes = Json::array();
  for (const VerifiedChange& change : verification.changes) {
    const auto& interval = change.gain_interval;
    changes.push_back({{"change", change.change},
                       {"predicted_gain", change.predicted_gain},
                       {"measured_gain", encode(change.gain)},
                       {"low", interval ? Json(interval->lower) : Json()},
                       {"high", interval ? Json(interval->upper) : Json()},
                       {"images_per_s", change.gain ? Json(change.images_per_s) : Json()},
                       {"missing", change.missing},
                       {"command", change.command}});
  }
  return {{"rounds", verification.rounds},
          {"interrupted", verification.interrupted_by.has_value()},
          {"command", verification.command},
          {"predicted_images_per_s", verification.predicted_images_per_s},
          {"images_per_s", verification.images_per_s},
          {"changes", changes}};
}

}  // namespace lockstep::cli
