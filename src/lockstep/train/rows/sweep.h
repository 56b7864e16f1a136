#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/results/record/setup.h"
#include "lockstep/strategies/strategy.h"
#include "lockstep/train/step/pacing.h"

namespace lockstep::train {

/// Flags of an input.
struct InputFlags {
  /// Empty: the input's own default.
  std::optional<int> prefetch;
  std::optional<int> workers;
  /// The address at which batches of other processes arrive.
  std::string address;
  /// Seconds to wait for one of them.
  double timeout_s = kDefaultTimeout_s;

  /// The flags that were given, as they are typed; without the address, which does not change what is
  /// measured.
  std::string text() const;
};

/// Names of devices.
constexpr const char* kCpu = "cpu";
constexpr const char* kCuda = "cuda";

/// A strategy's name for all of them but the controls.
constexpr const char* kAllStrategies = "all";

/// Strategies as asked for, each once, with kAllStrategies spelled out.
std::vector<std::string> spelled_out(const std::vector<std::string>& asked);

/// Options of a sweep. Lists vary: every combination of their values is a row.
struct SweepOptions {
  std::vector<std::string> models{"resnet50"};
  /// Images per rank; empty: each model's default.
  std::vector<int> batches;
  /// Empty: powers of two up to the number of ranks that the caller found possible.
  std::vector<int> ranks;
  /// `all`: every one but `single` and `independent`.
  std::vector<std::string> strategies{"ddp"};
  std::vector<std::string> precisions{"fp32"};
  /// Empty: those that suit the device.
  std::vector<std::string> kernels;
  std::vector<double> bucket_mb{25};
  /// Flags of the group "Strategy", for those strategies that know them.
  std::vector<strategies::GivenOption> strategy_options;
  /// The settings that all rows share: those above, and what follows from them, are filled in for each row.
  results::Setup common;
  InputFlags input_flags;
  PacingOptions pacing;
  /// Strong scaling: images of the whole job, the same at every number of ranks; empty: weak scaling, with
  /// `batches` per rank.
  std::vector<int> global_batches;
  /// `buckets`: find each row's bucket_mb by measuring; empty: nothing.
  std::string tune;
  /// Seconds that it may take per row.
  std::optional<double> tune_budget_s;
  /// Compare the replicas bit for bit every so many steps; empty: never.
  std::optional<int> verify_every;
  /// Whether the baseline (`single`) and the machine's limit (`independent`) are measured too.
  bool controls = true;
};

/// One configuration to measure, a row of the tables: its settings, which are those of its record as well,
/// and how a rank is to train it.
struct RowPlan : results::Setup {
  /// Setup::strategy_options parsed; without bucket_mb.
  strategies::StrategyOptions parsed_options;
  /// The number of the rank's GPU among those that its process sees. Every rank has its own.
  int device_index = 0;
  /// A GPU has only algorithms that give the same bits again (replica::Algorithms); a CPU has no others.
  bool repeatable = false;
  InputFlags input_flags;
  PacingOptions pacing;
  /// Seconds to look for bucket_mb before the row is measured; 0: it is what it says.
  double tune_budget_s = 0;
  /// Steps from one comparison of the replicas to the next; 0: none.
  int verify_every = 0;
  /// The processors of each device in a process that has the devices of all ranks; empty: not bound.
  std::vector<std::vector<int>> device_cpus;

  /// Settings that tell the row apart from others with the same label, in words: "buckets of 1 MiB, bf16".
  std::string distinction;

  /// "resnet50 ddp 2 ranks x 32, buckets of 1 MiB": unlike that of any other row of the sweep.
  std::string label() const;
  /// Images that one rank computes in a step.
  int images_per_rank_step() const { return batch_per_rank * accumulate; }
};

/// All rows in the order in which they are measured: per model, batch, precision and kernels first the
/// baseline, then each strategy by ascending ranks, then the `independent` control at the same ranks. Throws
/// ConfigError for every name and value that cannot be measured, before anything is started.
std::vector<RowPlan> plan_rows(const SweepOptions& options);

/// The baseline of rows[index], where that is the last row of its network and settings and not the baseline
/// itself: it is measured again then, so that a machine that changed in between does not look like scaling.
std::optional<size_t> baseline_after(const std::vector<RowPlan>& rows, size_t index);

/// The promises of the row's strategy.
strategies::Traits traits_of(const RowPlan& row);

/// The ranks that train in a row, from 0 on: all of its ranks, or one that has the devices of all. The others
/// sleep.
int training_ranks(const RowPlan& row);

/// The most ranks of any row.
int most_ranks(const std::vector<RowPlan>& rows);

}  // namespace lockstep::train
