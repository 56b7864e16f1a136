#include "lockstep/strategies/strategy_options.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"

namespace lockstep::strategies {
namespace {

/// 0 for what is no number.
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

Wire parse_wire(const std::string& value) {
  if (value == "fp16") return Wire::kFp16;
  return value == "bf16" ? Wire::kBf16 : Wire::kFp32;
}

Exchange exchange_of(const std::string& value) {
  if (value == "ar") return Exchange::kAr;
  if (value == "nccl16") return Exchange::kNccl16;
  if (value == "asa32") return Exchange::kAsa32;
  if (value == "asa16") return Exchange::kAsa16;
  return Exchange::kNccl32;
}

void check_together(const StrategyOptions& options) {
  const bool fp16_exchange = options.exchange == Exchange::kNccl16 || options.exchange == Exchange::kAsa16;
  if (fp16_exchange && options.wire == Wire::kBf16) {
    throw ConfigError("--exchange nccl16 and asa16 send fp16, but --wire is bf16",
                      "Use --exchange nccl32 or asa32 with --wire bf16.");
  }
}

std::string text_of(Exchange exchange) {
  switch (exchange) {
    case Exchange::kAr:
      return "ar";
    case Exchange::kNccl16:
      return "nccl16";
    case Exchange::kAsa32:
      return "asa32";
    case Exchange::kAsa16:
      return "asa16";
    case Exchange::kNccl32:
      break;
  }
  return "nccl32";
}

std::string on_or_off(bool on) {
  return on ? "on" : "off";
}

}  // namespace

const std::vector<OptionInfo>& option_infos() {
  static const std::vector<OptionInfo> all{
      {.flag = "--overlap",
       .description = "whether gradients are sent while backward goes on, or after it",
       .default_value = "on",
       .strategies = {"replicated", "sharded", "parameter_server"},
       .values = {"on", "off"},
       .set = [](StrategyOptions& options, const std::string& value) { options.overlap = value == "on"; }},
      {.flag = "--wire",
       .description = "in what type gradients are sent and summed",
       .default_value = "fp32",
       .strategies = {"ddp", "replicated", "bsp", "horovod"},
       .values = {"fp32", "fp16", "bf16"},
       .set = [](StrategyOptions& options, const std::string& value) { options.wire = parse_wire(value); }},
      {.flag = "--parameter-owners",
       .description = "who owns the variables: all ranks, balanced by bytes, or rank 0",
       .default_value = "sharded",
       .strategies = {"parameter_server"},
       .values = {"sharded", "rank0"},
       .set =
           [](StrategyOptions& options, const std::string& value) {
             options.parameter_owners =
                 value == "rank0" ? ParameterOwners::kRank0 : ParameterOwners::kSharded;
           }},
      {.flag = "--consistency",
       .description = "whether owners wait for the gradients of all ranks, or apply each when it arrives",
       .default_value = "sync",
       .strategies = {"parameter_server"},
       .values = {"sync", "async"},
       .set =
           [](StrategyOptions& options, const std::string& value) {
             options.consistency = value == "async" ? Consistency::kAsync : Consistency::kSync;
           }},
      {.flag = "--exchange",
       .description =
           "how a tensor is summed: through a copy in host memory (ar), by the backend's own "
           "all-reduce in fp32 or fp16 (nccl32, nccl16), or by all-to-all, sum and all-gather with "
           "fp32 or fp16 on the wire (asa32, asa16)",
       .default_value = "nccl32",
       .strategies = {"bsp"},
       .values = {"ar", "nccl32", "nccl16", "asa32", "asa16"},
       .set = [](StrategyOptions& options,
                 const std::string& value) { options.exchange = exchange_of(value); }},
      {.flag = "--bsp-sync",
       .description = "what is exchanged: momenta (cdd) or parameters (avg)",
       .default_value = "cdd",
       .strategies = {"bsp"},
       .values = {"cdd", "avg"},
       .set =
           [](StrategyOptions& options, const std::string& value) {
             options.bsp_sync = value == "avg" ? BspSync::kAvg : BspSync::kCdd;
           }},
      {.flag = "--cycle-ms",
       .description = "milliseconds from one negotiation to the next",
       .default_value = "1",
       .strategies = {"horovod"},
       .set = [](StrategyOptions& options, const std::string& value) { options.cycle_ms = number(value); }},
      {.flag = "--fusion-mb",
       .description = "up to how many MiB of gradients are sent as one",
       .default_value = "128",
       .strategies = {"horovod"},
       .set = [](StrategyOptions& options, const std::string& value) { options.fusion_mb = number(value); }},
      {.flag = "--deterministic",
       .description = "fix beforehand what is sent as one, instead of leaving it to timing",
       .default_value = "off",
       .strategies = {"horovod"},
       .values = {"on"},
       .is_switch = true,
       .set = [](StrategyOptions& options, const std::string&) { options.deterministic = true; }},
  };
  return all;
}

Wire wire_of(const std::string& strategy, const StrategyOptions& options) {
  const auto option = std::ranges::find(option_infos(), std::string("--wire"), &OptionInfo::flag);
  if (std::ranges::find(option->strategies, strategy) == option->strategies.end()) return Wire::kFp32;
  const bool fp16_exchange = options.exchange == Exchange::kNccl16 || options.exchange == Exchange::kAsa16;
  return strategy == "bsp" && fp16_exchange ? Wire::kFp16 : options.wire;
}

std::vector<GivenOption> spelled_out(const StrategyOptions& options) {
  // By name and all of them: an option that is added does not compile until it is told here too.
  const auto& [bucket_mb, overlap, wire, owners, consistency, exchange, bsp_sync, cycle_ms, fusion_mb,
               deterministic] = options;
  return {{"--overlap", on_or_off(overlap)},
          {"--wire", wire == Wire::kFp16   ? "fp16"
                     : wire == Wire::kBf16 ? "bf16"
                                           : "fp32"},
          {"--parameter-owners", owners == ParameterOwners::kRank0 ? "rank0" : "sharded"},
          {"--consistency", consistency == Consistency::kAsync ? "async" : "sync"},
          {"--exchange", text_of(exchange)},
          {"--bsp-sync", bsp_sync == BspSync::kAvg ? "avg" : "cdd"},
          {"--cycle-ms", fmt::format("{}", cycle_ms)},
          {"--fusion-mb", fmt::format("{}", fusion_mb)},
          {"--deterministic", on_or_off(deterministic)}};
}

StrategyOptions parse_options(const std::vector<GivenOption>& given,
                              const std::vector<std::string>& strategies) {
  StrategyOptions options;
  for (const auto& [flag, value] : given) {
    const auto option = std::ranges::find(option_infos(), flag, &OptionInfo::flag);
    if (option == option_infos().end()) throw ConfigError(fmt::format("no strategy knows {}", flag));
    const bool known = std::ranges::any_of(strategies, [&](const std::string& name) {
      return std::ranges::find(option->strategies, name) != option->strategies.end();
    });
    if (!known) {
      throw ConfigError(fmt::format("{} means nothing to the strategy {}", flag, fmt::join(strategies, ", ")),
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
    if (std::ranges::find(option.strategies, strategy) == option.strategies.end()) continue;
    // Of one that was given twice the last counts.
    const auto last = std::find_if(given.rbegin(), given.rend(),
                                   [&](const GivenOption& one) { return one.flag == option.flag; });
    if (last == given.rend() || last->value == option.default_value) continue;
    words.push_back(option.is_switch ? option.flag : option.flag + " " + last->value);
  }
  return fmt::format("{}", fmt::join(words, " "));
}

}  // namespace lockstep::strategies
