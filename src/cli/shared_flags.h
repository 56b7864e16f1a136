#pragma once

#include "lockstep/base/file.h"
#include "lockstep/results/tables/tables.h"
#include "lockstep/train/job/job_site.h"
#include "lockstep/train/rows/sweep.h"

#include "flags.h"

namespace lockstep::cli {

// Flags that several commands have. The values of the structures are the defaults.

/// Numbers that several flags take. The largest keep products of two of them within what an int holds.
constexpr double kMostImages = 1e6;
constexpr double kMostBatches = 1000;
constexpr double kMostPixels = 1 << 16;
constexpr double kMostSteps = 1e6;
constexpr double kMostThreads = 4096;
constexpr NumberRange kSeeds;

constexpr NumberRange counts_up_to(double most) {
  return {.least = 1, .most = most};
}
/// Up to twelve days.
constexpr NumberRange times_from(double least_s) {
  return {.least = least_s, .most = 1e6, .above = least_s == 0, .unit = Unit::kSeconds};
}

/// How many rows a command's flags describe.
enum class Rows {
  /// Lists separated by commas: a row for each combination.
  kSweep,
  /// One value each.
  kOne,
};

/// --model, --ranks, --batch, --strategy, --kernels, --bucket-mb, --accumulate, --image-size and --seed, in
/// the group that was begun; then the flags of strategies in one of their own. `usual_ranks`: the default of
/// --ranks in words.
void add_row_flags(Flags& flags, train::SweepOptions& sweep, Rows rows, const std::string& group,
                   const std::string& usual_ranks);

/// The flags that only `bench` and `train` have: --global-batch, --precision, --memory-format, --lr,
/// --momentum,
/// --weight-decay, --input, --data, --prefetch, --input-workers and --address.
void add_training_flags(Flags& flags, train::SweepOptions& sweep, Rows rows, const std::string& group,
                        const std::string& usual_input);

/// The files and folders that --model and --data name.
std::vector<GivenFile> inputs_of(const train::SweepOptions& sweep);

/// --device and --share-device, unless not `devices`; --backend, --launch, --threads, --bind, --interface and
/// --timeout.
void add_job_flags(Flags& flags, train::JobOptions& options, bool devices = true, FlagUse use = {});

/// --style, --markdown and --epoch-size, in the group that was begun.
void add_style_flags(Flags& flags, results::RenderOptions& how);
/// Throws ConfigError for an unknown style, and for an epoch that it does not show.
void check_style(const results::RenderOptions& how);

}  // namespace lockstep::cli
