#include "lockstep/strategies/strategy_options.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"

namespace lockstep::strategies {
namespace {

/// The number in `text`; 0 if it is not one.
double number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : 0;
}

void check_value(const OptionInfo& option, const std::string& value) {
  if (option.values.empty()) {
    if (number(value) > 0 && number(value) < 1e9) return;
    throw ConfigError(fmt::format("{} must be a number greater than 0, not '{}'", option.flag, value),
                      fmt::format("The default is {}.", option.default_value));
  }
  if (std::ranges::find(option.values, value) != option.values.end()) return;
  throw ConfigError(fmt::format("{} does not take '{}'", option.flag, value),
                    fmt::format("It takes {}.", fmt::join(option.values, ", ")));
}

/// The values that a flag takes, and their meanings.
template <typename Choice>
using Choices = std::vector<std::pair<std::string, Choice>>;

const Choices<bool> kOverlap{{"on", true}, {"off", false}};
const Choices<Wire> kWires{{"fp32", Wire::kFp32}, {"fp16", Wire::kFp16}, {"bf16", Wire::kBf16}};
const Choices<int> kInFlight{{"1", 1}, {"2", 2}, {"3", 3}, {"4", 4}};
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
const Choices<BspSync> kBspSyncs{{"cdd", BspSync::kCdd}, {"avg", BspSync::kAvg}};
const Choices<bool> kDeterministic{{"on", true}};

template <typename Choice>
std::vector<std::string> values_of(const Choices<Choice>& choices) {
  std::vector<std::string> values;
  for (const auto& [value, choice] : choices) values.push_back(value);
  return values;
}

/// `value` must be one of them (see check_value()).
template <typename Choice>
Choice choice_of(const Choices<Choice>& choices, const std::string& value) {
  return std::ranges::find(choices, value, &std::pair<std::string, Choice>::first)->second;
}

template <typename Choice>
std::string value_of(const Choices<Choice>& choices, Choice choice) {
  return std::ranges::find(choices, choice, &std::pair<std::string, Choice>::second)->first;
}

bool sends_fp16(Exchange exchange) {
  return exchange == Exchange::kNccl16 || exchange == Exchange::kAsa16;
}

void check_together(const StrategyOptions& options) {
  if (sends_fp16(options.exchange) && options.wire == Wire::kBf16) {
    throw ConfigError("--exchange nccl16 and asa16 send fp16, but --wire is bf16",
                      "Use --exchange nccl32 or asa32 with --wire bf16.");
  }
}

const OptionInfo* find_option(const std::string& flag) {
  const auto option = std::ranges::find(option_infos(), flag, &OptionInfo::flag);
  return option == option_infos().end() ? nullptr : &*option;
}

}  // namespace

const std::vector<OptionInfo>& option_infos() {
  static const std::vector<OptionInfo> all{
      {.flag = "--overlap",
       .description = "whether gradients are sent during backward, or after it",
       .default_value = "on",
       .strategies = {"replicated", "sharded", "parameter_server"},
       .values = values_of(kOverlap),
       .set = [](StrategyOptions& options,
                 const std::string& value) { options.overlap = choice_of(kOverlap, value); }},
      {.flag = "--wire",
       .description = "number format in which gradients are sent and summed",
       .default_value = "fp32",
       .strategies = {"ddp", "replicated", "bsp", "horovod"},
       .values = values_of(kWires),
       .set = [](StrategyOptions& options,
                 const std::string& value) { options.wire = choice_of(kWires, value); }},
      {.flag = "--in-flight",
       .description = "number of all-reduces at the same time, each on a communicator of its own",
       .default_value = "2",
       .strategies = {"replicated"},
       .values = values_of(kInFlight),
       .set = [](StrategyOptions& options,
                 const std::string& value) { options.in_flight = choice_of(kInFlight, value); }},
      {.flag = "--parameter-owners",
       .description = "owners of the variables: all ranks, balanced by bytes, or rank 0",
       .default_value = "sharded",
       .strategies = {"parameter_server"},
       .values = values_of(kOwners),
       .set = [](StrategyOptions& options,
                 const std::string& value) { options.parameter_owners = choice_of(kOwners, value); }},
      {.flag = "--consistency",
       .description = "whether owners wait for the gradients of all ranks, or apply each one when it arrives",
       .default_value = "sync",
       .strategies = {"parameter_server"},
       .values = values_of(kConsistencies),
       .set = [](StrategyOptions& options,
                 const std::string& value) { options.consistency = choice_of(kConsistencies, value); }},
      {.flag = "--parameter-device",
       .description =
           "memory in which owners keep and update variables: the GPU's or the host's; no effect on "
           "the CPU",
       .default_value = "gpu",
       .strategies = {"parameter_server"},
       .values = values_of(kParameterDevices),
       .set =
           [](StrategyOptions& options, const std::string& value) {
             options.parameter_device = choice_of(kParameterDevices, value);
           }},
      {.flag = "--exchange",
       .description =
           "how a tensor is summed: through a copy in host memory (ar), by the backend's own "
           "all-reduce in fp32 or fp16 (nccl32, nccl16), or by all-to-all, sum and all-gather with "
           "fp32 or fp16 on the wire (asa32, asa16)",
       .default_value = "nccl32",
       .strategies = {"bsp"},
       .values = values_of(kExchanges),
       .set = [](StrategyOptions& options,
                 const std::string& value) { options.exchange = choice_of(kExchanges, value); }},
      {.flag = "--bsp-sync",
       .description = "values that are exchanged: momenta (cdd) or parameters (avg)",
       .default_value = "cdd",
       .strategies = {"bsp"},
       .values = values_of(kBspSyncs),
       .set = [](StrategyOptions& options,
                 const std::string& value) { options.bsp_sync = choice_of(kBspSyncs, value); }},
      {.flag = "--cycle-ms",
       .description = "milliseconds from one negotiation to the next",
       .default_value = "1",
       .strategies = {"horovod"},
       .set = [](StrategyOptions& options, const std::string& value) { options.cycle_ms = number(value); }},
      {.flag = "--fusion-mb",
       .description = "maximum size of fused gradients in MiB",
       .default_value = "128",
       .strategies = {"horovod"},
       .set = [](StrategyOptions& options, const std::string& value) { options.fusion_mb = number(value); }},
      {.flag = "--deterministic",
       .description = "fix in advance which gradients are fused, instead of leaving it to timing",
       .default_value = "off",
       .strategies = {"horovod"},
       .values = values_of(kDeterministic),
       .is_switch = true,
       .set = [](StrategyOptions& options,
                 const std::string& value) { options.deterministic = choice_of(kDeterministic, value); }},
  };
  return all;
}

bool OptionInfo::concerns(const std::string& strategy) const {
  return std::ranges::find(strategies, strategy) != strategies.end();
}

Wire wire_of(const std::string& strategy, const StrategyOptions& options) {
  if (!find_option("--wire")->concerns(strategy)) return Wire::kFp32;
  return strategy == "bsp" && sends_fp16(options.exchange) ? Wire::kFp16 : options.wire;
}

std::vector<GivenOption> spelled_out(const StrategyOptions& options) {
  // Binds every member, so that a new option does not compile until it is listed here.
  const auto& [bucket_mb, overlap, wire, in_flight, owners, consistency, parameter_device, exchange, bsp_sync,
               cycle_ms, fusion_mb, deterministic] = options;
  return {{"--overlap", value_of(kOverlap, overlap)},
          {"--wire", value_of(kWires, wire)},
          {"--in-flight", value_of(kInFlight, in_flight)},
          {"--parameter-owners", value_of(kOwners, owners)},
          {"--consistency", value_of(kConsistencies, consistency)},
          {"--parameter-device", value_of(kParameterDevices, parameter_device)},
          {"--exchange", value_of(kExchanges, exchange)},
          {"--bsp-sync", value_of(kBspSyncs, bsp_sync)},
          {"--cycle-ms", fmt::format("{}", cycle_ms)},
          {"--fusion-mb", fmt::format("{}", fusion_mb)},
          {"--deterministic", deterministic ? "on" : "off"}};
}

StrategyOptions parse_options(const std::vector<GivenOption>& given,
                              const std::vector<std::string>& strategies) {
  StrategyOptions options;
  for (const auto& [flag, value] : given) {
    const OptionInfo* option = find_option(flag);
    if (option == nullptr) throw ConfigError(fmt::format("no strategy has the option {}", flag));
    const bool known =
        std::ranges::any_of(strategies, [&](const std::string& name) { return option->concerns(name); });
    if (!known) {
      throw ConfigError(fmt::format("{} has no effect on the strategy {}", flag, fmt::join(strategies, ", ")),
                        fmt::format("It is an option of {}.", fmt::join(option->strategies, ", ")));
    }
    check_value(*option, value);
    option->set(options, value);
  }
  check_together(options);
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
    words.push_back(option.is_switch ? option.flag : option.flag + " " + last->value);
  }
  return fmt::format("{}", fmt::join(words, " "));
}

}  // namespace lockstep::strategies
