#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/number_range.h"
#include "lockstep/base/units.h"

namespace lockstep::strategies {

/// What sharded divides among the ranks: momenta, gradients too, or everything (ZeRO's stages 1 to 3).
enum class Shard { kOptimizer, kGradients, kParameters };
enum class ParameterOwners { kSharded, kRank0 };
enum class Consistency { kSync, kAsync };
enum class ParameterDevice { kGpu, kCpu };
enum class Exchange { kAr, kNccl32, kNccl16, kAsa32, kAsa16 };
/// Sizes of buckets and of fused gradients: up to 1 TiB.
inline constexpr NumberRange kBucketSizes{.most = 1 << 20, .above = true, .unit = Unit::kMebibytes};

enum class BspSync { kCdd, kAvg };
enum class Wire { kFp32, kFp16, kBf16 };

/// The user's options for all strategies. A strategy ignores the options of others.
struct StrategyOptions {
  /// Maximum size of a bucket of gradients in MiB, for strategies with buckets.
  double bucket_mb = 25;
  int64_t bucket_bytes() const { return static_cast<int64_t>(bucket_mb * static_cast<double>(kMiB)); }
  /// Whether gradients are sent during backward or after it, for strategies that support both.
  bool overlap = true;
  /// The number format in which gradients (bsp: exchanged values) are sent and summed.
  Wire wire = Wire::kFp32;
  /// Rank of the matrices in which gradients are sent (PowerSgd); 0: they are sent whole. Steps before the
  /// first that does so.
  int powersgd = 0;
  int powersgd_start = 0;
  /// Whether batch norm takes its statistics over the batches of all ranks.
  bool sync_batch_norm = false;
  Shard shard = Shard::kOptimizer;
  /// With Shard::kParameters, in place of bucket_mb: the size up to which blocks are gathered together.
  double unit_mb = 25;
  int64_t unit_bytes() const {
    return static_cast<int64_t>((shard == Shard::kParameters ? unit_mb : bucket_mb) *
                                static_cast<double>(kMiB));
  }
  /// Units that are gathered ahead of the one in use.
  int prefetch_units = 1;
  /// Number of all-reduces of replicated at the same time.
  int in_flight = 2;
  /// Whether ranks sum in the memory of their host, and one rank of each host over the network.
  bool hierarchical = false;
  /// The owners of a parameter server's variables.
  ParameterOwners parameter_owners = ParameterOwners::kSharded;
  /// Whether a parameter server waits for all gradients or applies each one when it arrives.
  Consistency consistency = Consistency::kSync;
  /// The memory in which its owners keep and update variables and momenta; the host's if there are no GPUs.
  ParameterDevice parameter_device = ParameterDevice::kGpu;
  /// How bsp sums a tensor over the ranks, and whether it exchanges momenta or parameters.
  Exchange exchange = Exchange::kNccl32;
  BspSync bsp_sync = BspSync::kCdd;
  /// Milliseconds between horovod's negotiations, the maximum size of fused gradients in MiB, and whether
  /// packs are fixed in advance.
  double cycle_ms = 1;
  double fusion_mb = 128;
  bool deterministic = false;
  /// Steps that local_sgd takes from one exchange to the next, and the rate and momentum of its outer step.
  int sync_every = 1;
  double outer_lr = 1;
  double outer_momentum = 0;
};

/// The flag of one of these options.
struct OptionInfo {
  /// "--overlap".
  std::string flag;
  std::string description;
  /// The strategies that have the option.
  std::vector<std::string> strategies;
  /// Whether the flag takes no value; giving it means "on".
  bool is_switch = false;
  /// Whether it changes where states are kept, not what is computed.
  bool only_places = false;
  /// The values that it takes; empty: `numbers`.
  std::vector<std::string> values = {};
  std::optional<NumberRange> numbers = {};
  /// Whether it takes whole numbers only.
  bool whole = false;
  /// The value if the flag is not given.
  std::string default_value = {};
  void (*set)(StrategyOptions& options, const std::string& value) = nullptr;
  std::string (*get)(const StrategyOptions& options) = nullptr;

  /// Whether a strategy has the option.
  bool concerns(const std::string& strategy) const;
};

/// A flag and its value on the command line.
struct GivenOption {
  std::string flag;
  std::string value;
};

/// The strategy behind a name that others know it by, and the option that the name stands for.
struct Alias {
  std::string name;
  std::string strategy;
  GivenOption option;
};
/// zero1, zero2, zero3, fsdp.
const std::vector<Alias>& aliases();

/// A strategy and its options.
struct Resolved {
  std::string strategy;
  std::vector<GivenOption> given;
};
/// The strategy of this name with the given options and, last, that of an alias.
Resolved resolve(const std::string& name, std::vector<GivenOption> given);

/// All options except bucket_mb, which is an axis of a sweep.
const std::vector<OptionInfo>& option_infos();

/// Whether an exchange of bsp sends fp16, whatever --wire says.
bool sends_fp16(Exchange exchange);

/// The number format in which a strategy sends, including the effect of --exchange; fp32 for strategies
/// without --wire.
Wire wire_of(const std::string& strategy, const StrategyOptions& options);

/// All options except bucket_mb as flags and values, defaults included, so that ranks can compare them.
std::vector<GivenOption> spelled_out(const StrategyOptions& options);

/// Checks the options of a run of `strategies`, whose flags exist and take these values. Throws ConfigError
/// for a flag that none of these strategies has, and for values that exclude each other.
void check_options(const std::vector<GivenOption>& given, const std::vector<std::string>& strategies);

/// The options of one of them; those that it does not have, or that were not given, have their defaults.
StrategyOptions options_of(const std::string& strategy, const std::vector<GivenOption>& given);

/// The given options that `strategy` has and that are not its defaults, as a command line: "--wire bf16".
std::string options_text(const std::vector<GivenOption>& given, const std::string& strategy);

}  // namespace lockstep::strategies
