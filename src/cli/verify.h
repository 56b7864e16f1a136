#pragma once

#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "lockstep/strategies/strategy_options.h"

#include "rank_job.h"

namespace lockstep::cli {

struct VerifyOptions {
  std::vector<std::string> models{"mlp", "lenet5"};
  std::vector<std::string> strategies{"all"};
  std::vector<int> ranks;
  /// Empty: what bench takes.
  std::vector<std::string> kernels;
  int batch = 4;
  int image_size = 0;
  int steps = 5;
  double bucket_mb = 25;
  uint64_t seed = 1;
  int accumulate = 1;
  std::vector<strategies::GivenOption> strategy_options;
  /// Where to write values and batches for another program instead of checking.
  std::string export_folder;
  RankOptions job;
};

void add_verify_flags(CLI::App& command, VerifyOptions& options);

/// Prints a row per check; returns 1 when one of them fails.
int run_verify(const VerifyOptions& options);

}  // namespace lockstep::cli
