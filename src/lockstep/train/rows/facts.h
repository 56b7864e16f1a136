#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/fields.h"
#include "lockstep/replica/parameters.h"
#include "lockstep/train/rows/sweep.h"

namespace lockstep::train {

/// Something that all ranks must have in common before they may train together, in words.
struct Fact {
  /// "seed".
  std::string name;
  /// "7".
  std::string value;

  bool operator==(const Fact&) const = default;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& fact) {
    fields("name", fact.name, kRequired);
    fields("value", fact.value, kRequired);
  }
};

using Facts = std::vector<Fact>;

/// All that a row is.
Facts facts_of(const RowPlan& row);

/// All that a plan is: what its rows are, each fact with the values that it takes in turn.
Facts facts_of(const std::vector<RowPlan>& rows);

/// Names, shapes and values of a network's tensors, and where their elements lie: one fact a tensor, the
/// values as a hash.
Facts facts_of(const replica::Parameters& parameters);

/// Tells facts apart that differ in anything.
uint64_t hash_of(const Facts& facts);

/// How the ranks differ from rank 0, by name and value: "rank 2 has seed 7, rank 0 has seed 1". Hashes are
/// told only where nothing else differs. `by_rank`: the facts of every rank. Empty where all are the same.
std::string difference_text(const std::vector<Facts>& by_rank);

}  // namespace lockstep::train
