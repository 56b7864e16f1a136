#include "lockstep/strategies/strategy_options.h"

#include <algorithm>
#include <array>
#include <map>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"

namespace lockstep::strategies {
namespace {

/// The values that a flag takes, and their meanings.
template <typename Choice>
using Choices = std::vector<std::pair<std::string, Choice>>;

const Choices<bool> kOnOff{{"on", true}, {"off", false}};
const Choices<Wire> kWires{{"fp32", Wire::kFp32}, {"fp16", Wire::kFp16}, {"bf16", Wire::kBf16}};
const Choices<int> kInFlight{{"1", 1}, {"2", 2}, {"3", 3}, {"4", 4}};
const Choices<Shard> kShards{
    {"optimizer", Shard::kOptimizer}, {"gradients", Shard::kGradients}, {"parameters", Shard::kParameters}};
const Choices<int> kPrefetchUnits{{"0", 0}, {"1", 1}, {"2", 2}, {"3", 3}, {"4", 4}};
const Choices<ParameterOwners> kOwners{{"sharded", ParameterOwners::kSharded},
                                       {"rank0", ParameterOwners::kRank0}};
const Choices<Consistency> kConsistencies{{"sync", Consistency::kSync}, {"async", Consistency::kAsync}};
const Choices<ParameterDevice> kParameterDevices{{"gpu", ParameterDevice::kGpu},
                                                 {"cpu", ParameterDevice::kCpu}};
const Choices<Exchange> kExchanges{{"ar", Exchange::kAr},
                                   {"nccl32", Exchange::kNccl32},
                                   {"nccl16", Exchange::kNccl16},
                                   {"asa32", Exchange::kAsa32},
                                   {"asa16", Exchange::kAsa16}};
constexpr NumberRange kCycles{.most = 60'000, .above = true, .unit = Unit::kMilliseconds};
/// Ranks of --wire powersgd:R.
constexpr std::array kLowRanks{1, 2, 4, 8, 16, 32};
constexpr const char* kPowerSgd = "powersgd:";
constexpr NumberRange kStarts{.most = 1e9};
constexpr NumberRange kSyncs{.least = 1, .most = 1e6};
constexpr NumberRange kOuterRates{.most = 10, .above = true};
constexpr NumberRange kOuterMomenta{.most = 1, .below = true};
const Choices<BspSync> kBspSyncs{{"cdd", BspSync::kCdd}, {"avg", BspSync::kAvg}};

template <typename Choice>
Choice choice_of(const Choices<Choice>& choices, const std::string& value) {
  return std::map<std::string, Choice>(choices.begin(), choices.end()).at(value);
}

template <typename Choice>
std::string value_of(const Choices<Choice>& choices, Choice choice) {
  return std::ranges::find(choices, choice, &std::pair<std::string, Choice>::second)->first;
}

/// Completes an option that takes one of the values in `choices`.
template <auto member, const auto& choices>
OptionInfo choice(OptionInfo option) {
  for (const auto& [value, meaning] : choices) option.values.push_back(value);
  option.set = [](StrategyOptions& options, const std::string& value) {
    options.*member = choice_of(choices, value);
  };
  option.get = [](const StrategyOptions& options) { return value_of(choices, options.*member); };
  option.default_value = option.get({});
  return option;
}

/// Completes an option that takes numbers.
template <auto member, const NumberRange& range>
OptionInfo number(OptionInfo option) {
  using Number = std::remove_reference_t<decltype(std::declval<StrategyOptions>().*member)>;
  option.numbers = range;
  option.whole = std::is_integral_v<Number>;
  option.set = [](StrategyOptions& options, const std::string& value) {
    options.*member = static_cast<Number>(parse_number(value, range).value());
  };
  option.get = [](const StrategyOptions& options) { return fmt::format("{}", options.*member); };
  option.default_value = option.get({});
  return option;
}

OptionInfo wire_option() {
  OptionInfo option = choice<&StrategyOptions::wire, kWires>(
      {.flag = "--wire",
       .description =
           "number format in which gradients are sent and summed, or the rank of the matrices that "
           "approximate them (PowerSGD: ddp and replicated only)",
       .strategies = {"ddp", "replicated", "bsp", "horovod"}});
  for (const int rank : kLowRanks) option.values.push_back(kPowerSgd + std::to_string(rank));
  option.set = [](StrategyOptions& options, const std::string& value) {
    const bool low_rank = value.starts_with(kPowerSgd);
    options.powersgd = low_rank ? std::stoi(value.substr(value.find(':') + 1)) : 0;
    options.wire = low_rank ? Wire::kFp32 : choice_of(kWires, value);
  };
  option.get = [](const StrategyOptions& options) {
    return options.powersgd > 0 ? kPowerSgd + std::to_string(options.powersgd)
                                : value_of(kWires, options.wire);
  };
  return option;
}

/// Whether a strategy has the option with this value.
bool has_value(const std::string& strategy, const OptionInfo& option, const std::string& value) {
  if (!option.concerns(strategy)) return false;
  return !value.starts_with(kPowerSgd) || strategy == "ddp" || strategy == "replicated";
}

void check_together(const StrategyOptions& options) {
  if (options.powersgd_start > 0 && options.powersgd == 0) {
    throw ConfigError("--powersgd-start means nothing without --wire powersgd:R",
                      "Add --wire powersgd:4, or leave it out.");
  }
  if (options.sync_batch_norm && options.consistency == Consistency::kAsync) {
    throw ConfigError(
        "--sync-batch-norm lets ranks wait for each other in every layer, and --consistency async "
        "never lets them wait",
        "Leave one of the two out.");
  }
  if (sends_fp16(options.exchange) && options.wire == Wire::kBf16) {
    throw ConfigError("--exchange nccl16 and asa16 send fp16, but --wire is bf16",
                      "Use --exchange nccl32 or asa32 with --wire bf16.");
  }
  if (options.hierarchical &&
      (options.exchange == Exchange::kAsa32 || options.exchange == Exchange::kAsa16)) {
    throw ConfigError("--exchange asa32 and asa16 have no all-reduce that --hierarchical could divide",
                      "Use --exchange ar, nccl32 or nccl16 with --hierarchical.");
  }
}

const OptionInfo& option_of(const std::string& flag) {
  return *std::ranges::find(option_infos(), flag, &OptionInfo::flag);
}

}  // namespace

const std::vector<Alias>& aliases() {
  static const std::vector<Alias> all{{"zero1", "sharded", {"--shard", "optimizer"}},
                                      {"zero2", "sharded", {"--shard", "gradients"}},
                                      {"zero3", "sharded", {"--shard", "parameters"}},
                                      {"fsdp", "sharded", {"--shard", "parameters"}}};
  return all;
}

Resolved resolve(const std::string& name, std::vector<GivenOption> given) {
  const auto alias = std::ranges::find(aliases(), name, &Alias::name);
  if (alias == aliases().end()) return {name, std::move(given)};
  given.push_back(alias->option);
  return {alias->strategy, std::move(given)};
}

const std::vector<OptionInfo>& option_infos() {
  using Options = StrategyOptions;
  static const std::vector<OptionInfo> all{
      choice<&Options::overlap, kOnOff>(
          {.flag = "--overlap",
           .description = "whether gradients are sent during backward, or after it",
           .strategies = {"replicated", "sharded", "parameter_server"}}),
      wire_option(),
      number<&Options::powersgd_start, kStarts>(
          {.flag = "--powersgd-start",
           .description = "steps with whole gradients before --wire powersgd:R begins",
           .strategies = {"ddp", "replicated"}}),
      choice<&Options::sync_batch_norm, kOnOff>(
          {.flag = "--sync-batch-norm",
           .description = "take batch norm's statistics over the batches of all ranks, forward and backward",
           .strategies = {"ddp", "replicated", "sharded", "parameter_server", "bsp", "horovod"},
           .is_switch = true}),
      choice<&Options::shard, kShards>(
          {.flag = "--shard",
           .description =
               "what ranks divide among them: optimizer (zero1), gradients too (zero2), parameters "
               "too (zero3, fsdp)",
           .strategies = {"sharded"},
           .only_places = true}),
      number<&Options::unit_mb, kBucketSizes>(
          {.flag = "--unit-mb",
           .description = "size in MiB up to which blocks of parameters are gathered together, with --shard "
                          "parameters",
           .strategies = {"sharded"},
           .only_places = true}),
      choice<&Options::prefetch_units, kPrefetchUnits>(
          {.flag = "--prefetch-units",
           .description = "units of parameters gathered ahead, with --shard parameters",
           .strategies = {"sharded"},
           .only_places = true}),
      choice<&Options::in_flight, kInFlight>(
          {.flag = "--in-flight",
           .description = "number of all-reduces at the same time, each on a communicator of its own",
           .strategies = {"replicated"}}),
      choice<&Options::hierarchical, kOnOff>(
          {.flag = "--hierarchical",
           .description = "sum in the memory of each host first, and over the network by one rank per host; "
                          "sharded: shards within a host, replicas across hosts",
           .strategies = {"ddp", "replicated", "sharded", "bsp", "horovod"},
           .is_switch = true}),
      choice<&Options::parameter_owners, kOwners>(
          {.flag = "--parameter-owners",
           .description = "owners of the variables: all ranks, balanced by bytes, or rank 0",
           .strategies = {"parameter_server"}}),
      choice<&Options::consistency, kConsistencies>(
          {.flag = "--consistency",
           .description =
               "whether owners wait for the gradients of all ranks, or apply each one when it arrives",
           .strategies = {"parameter_server"}}),
      choice<&Options::parameter_device, kParameterDevices>(
          {.flag = "--parameter-device",
           .description = "memory in which owners keep and update variables: the GPU's or the host's; no "
                          "effect on the CPU",
           .strategies = {"parameter_server"}}),
      choice<&Options::exchange, kExchanges>(
          {.flag = "--exchange",
           .description = "how a tensor is summed: through a copy in host memory (ar), by the backend's own "
                          "all-reduce in fp32 or fp16 (nccl32, nccl16), or by all-to-all, sum and all-gather "
                          "with fp32 or fp16 on the wire (asa32, asa16)",
           .strategies = {"bsp"}}),
      choice<&Options::bsp_sync, kBspSyncs>(
          {.flag = "--bsp-sync",
           .description = "values that are exchanged: momenta (cdd) or parameters (avg)",
           .strategies = {"bsp"}}),
      number<&Options::cycle_ms, kCycles>({.flag = "--cycle-ms",
                                           .description = "milliseconds from one negotiation to the next",
                                           .strategies = {"horovod"}}),
      number<&Options::fusion_mb, kBucketSizes>({.flag = "--fusion-mb",
                                                 .description = "maximum size of fused gradients in MiB",
                                                 .strategies = {"horovod"}}),
      choice<&Options::deterministic, kOnOff>(
          {.flag = "--deterministic",
           .description = "fix in advance which gradients are fused, instead of leaving it to timing",
           .strategies = {"horovod"},
           .is_switch = true}),
      number<&Options::sync_every, kSyncs>(
          {.flag = "--sync-every",
           .description = "steps that every rank takes alone before parameters are averaged",
           .strategies = {"local_sgd"}}),
      number<&Options::outer_lr, kOuterRates>(
          {.flag = "--outer-lr",
           .description = "share of the mean move of the ranks that parameters follow, as a learning rate",
           .strategies = {"local_sgd"}}),
      number<&Options::outer_momentum, kOuterMomenta>(
          {.flag = "--outer-momentum",
           .description = "Nesterov momentum of these moves (DiLoCo: 0.9, with --outer-lr 0.7)",
           .strategies = {"local_sgd"}}),
  };
  return all;
}

bool OptionInfo::concerns(const std::string& strategy) const {
  return std::ranges::find(strategies, strategy) != strategies.end();
}

bool sends_fp16(Exchange exchange) {
  return exchange == Exchange::kNccl16 || exchange == Exchange::kAsa16;
}

Wire wire_of(const std::string& strategy, const StrategyOptions& options) {
  if (!option_of("--wire").concerns(strategy)) return Wire::kFp32;
  return strategy == "bsp" && sends_fp16(options.exchange) ? Wire::kFp16 : options.wire;
}

std::vector<GivenOption> spelled_out(const StrategyOptions& options) {
  std::vector<GivenOption> all;
  for (const OptionInfo& option : option_infos()) all.push_back({option.flag, option.get(options)});
  return all;
}

void check_options(const std::vector<GivenOption>& given, const std::vector<std::string>& strategies) {
  StrategyOptions options;
  for (const auto& [flag, value] : given) {
    const OptionInfo& option = option_of(flag);
    option.set(options, value);
    const auto has_it = [&, text = value](const std::string& name) {
      return has_value(resolve(name, {}).strategy, option, text);
    };
    if (std::ranges::any_of(strategies, has_it)) continue;
    if (value.starts_with(kPowerSgd)) {
      throw ConfigError(
          fmt::format("--wire {} has no effect on the strategy {}", value, fmt::join(strategies, ", ")),
          "It is an option of ddp and replicated; others have --wire bf16 or fp16.");
    }
    throw ConfigError(fmt::format("{} has no effect on the strategy {}", flag, fmt::join(strategies, ", ")),
                      fmt::format("It is an option of {}.", fmt::join(option.strategies, ", ")));
  }
  check_together(options);
  for (const char* flag : {"--unit-mb", "--prefetch-units"}) {
    const bool is_given = std::ranges::any_of(given, [&](const GivenOption& one) {
      return one.flag == flag && one.value != option_of(flag).default_value;
    });
    const auto has_units = [&](const std::string& name) {
      const Resolved resolved = resolve(name, given);
      return options_of(resolved.strategy, resolved.given).shard == Shard::kParameters;
    };
    if (!is_given || std::ranges::any_of(strategies, has_units)) continue;
    throw ConfigError(fmt::format("{} has no effect without --shard parameters", flag),
                      "Add it, or use --bucket-mb, by which other stages divide their gradients.");
  }
}

StrategyOptions options_of(const std::string& strategy, const std::vector<GivenOption>& given) {
  StrategyOptions options;
  for (const auto& [flag, value] : given) {
    if (has_value(strategy, option_of(flag), value)) option_of(flag).set(options, value);
  }
  return options;
}

std::string options_text(const std::vector<GivenOption>& given, const std::string& strategy) {
  std::vector<std::string> words;
  for (const OptionInfo& option : option_infos()) {
    if (!option.concerns(strategy)) continue;
    // If a flag was given several times, the last one counts.
    const auto last = std::find_if(given.rbegin(), given.rend(),
                                   [&](const GivenOption& one) { return one.flag == option.flag; });
    if (last == given.rend() || last->value == option.default_value) continue;
    if (!has_value(strategy, option, last->value)) continue;
    words.push_back(option.is_switch ? option.flag : option.flag + " " + last->value);
  }
  return fmt::format("{}", fmt::join(words, " "));
}

}  // namespace lockstep::strategies
