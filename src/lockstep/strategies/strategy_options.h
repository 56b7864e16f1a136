#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/units.h"

namespace lockstep::strategies {

enum class ParameterOwners { kSharded, kRank0 };
enum class Consistency { kSync, kAsync };
enum class ParameterDevice { kGpu, kCpu };
enum class Exchange { kAr, kNccl32, kNccl16, kAsa32, kAsa16 };
enum class BspSync { kCdd, kAvg };
enum class Wire { kFp32, kFp16, kBf16 };

/// What a user may choose about strategies; each has its default, and ignores what it does not know.
struct StrategyOptions {
  /// Cap of one bucket of gradients in MiB, for strategies that fill buckets.
  double bucket_mb = 25;
  int64_t bucket_bytes() const { return static_cast<int64_t>(bucket_mb * static_cast<double>(kMiB)); }
  /// Whether gradients are sent while backward goes on, for strategies that can do both.
  bool overlap = true;
  /// In what type gradients (bsp: what it exchanges) are sent and summed.
  Wire wire = Wire::kFp32;
  /// How many all-reduces of replicated go on at the same time.
  int in_flight = 2;
  /// Who owns the variables of a parameter server.
  ParameterOwners parameter_owners = ParameterOwners::kSharded;
  /// Whether a parameter server waits for all gradients, or applies each on arrival.
  Consistency consistency = Consistency::kSync;
  /// Where its owners keep variables and momenta, and update them; where there are no GPUs, on the CPU.
  ParameterDevice parameter_device = ParameterDevice::kGpu;
  /// How bsp sums a tensor over the ranks, and what: momenta or parameters.
  Exchange exchange = Exchange::kNccl32;
  BspSync bsp_sync = BspSync::kCdd;
  /// How often horovod negotiates, how much it fuses, and whether what it fuses is fixed beforehand.
  double cycle_ms = 1;
  double fusion_mb = 128;
  bool deterministic = false;
};

/// One of these as a flag.
struct OptionInfo {
  /// "--overlap".
  std::string flag;
  std::string description;
  /// Of the option when the flag is not given.
  std::string default_value;
  /// The strategies that know it.
  std::vector<std::string> strategies;
  /// What may be given; empty: a number greater than 0.
  std::vector<std::string> values;
  /// Takes no value: to give it is "on".
  bool is_switch = false;
  void (*set)(StrategyOptions& options, const std::string& value) = nullptr;

  /// Whether a strategy knows it.
  bool concerns(const std::string& strategy) const;
};

/// All options but bucket_mb, which sweeps.
const std::vector<OptionInfo>& option_infos();

/// In what type a strategy sends, --exchange considered; fp32 for those that know no other.
Wire wire_of(const std::string& strategy, const StrategyOptions& options);

/// A flag and what was given with it.
struct GivenOption {
  std::string flag;
  std::string value;
};

/// All options but bucket_mb as flags, whatever was given: what a rank does by them.
std::vector<GivenOption> spelled_out(const StrategyOptions& options);

/// Options as given for a run of `strategies`; the others have their defaults. Throws ConfigError for a flag
/// that none of these strategies knows, and for a value that the flag does not take.
StrategyOptions parse_options(const std::vector<GivenOption>& given,
                              const std::vector<std::string>& strategies);

/// As one types them, those that `strategy` knows and that are not its defaults: "--wire bf16".
std::string options_text(const std::vector<GivenOption>& given, const std::string& strategy);

}  // namespace lockstep::strategies
