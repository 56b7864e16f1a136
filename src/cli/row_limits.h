#pragma once

#include <map>
#include <string>

#include "lockstep/limit/limit.h"
#include "lockstep/results/record/layer_times.h"

#include "scribe.h"

namespace lockstep::cli {

/// The limits of the rows of one launch. Each is measured once, by rank 0 before the first row that it
/// belongs to: there it has the cores and the number of threads of a rank, under any launcher. The others
/// sleep at the store meanwhile, so that nobody else computes.
class RowLimits {
 public:
  explicit RowLimits(const BenchRank& rank) : rank_(rank) {}

  /// Collective over the ranks that train in the row. Returns the limit on rank 0, null on the others.
  const limit::Limit* of(const train::RowPlan& row);

 private:
  const BenchRank& rank_;
  /// By what it depends on; empty on ranks other than 0.
  std::map<std::string, limit::Limit> limits_;
};

/// Fills in what each layer takes at least.
void add_limits(std::vector<results::LayerTimes>& layers, const limit::Limit& limit);

}  // namespace lockstep::cli
