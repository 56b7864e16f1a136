#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/base/fields.h"
#include "lockstep/replica/parameters.h"
#include "lockstep/train/rows/sweep.h"

namespace lockstep::train {

/// FNV-1a of no bytes.
constexpr uint64_t kEmptyHash = 14695981039346656037ULL;

/// Adds the bits of a dense tensor as they lie in memory, FNV-1a by words in eight lanes; of a GPU they are
/// copied first.
void add_bits(uint64_t& hash, const at::Tensor& tensor);

/// Adds text and a mark of its end.
void add_text(uint64_t& hash, std::string_view text);

/// A property that all ranks must have in common before they may train together, in words.
struct Property {
  /// "seed".
  std::string name;
  /// "7".
  std::string value;

  bool operator==(const Property&) const = default;

  LOCKSTEP_DESCRIBE(kRequired, name, value)
};

/// All properties of something, in an order that is the same on all ranks.
using Fingerprint = std::vector<Property>;

/// The settings that decide what a row computes, all but its learning rate and its data.
Fingerprint training_settings_of(const RowPlan& row);

/// All settings of a row, and how it is to be measured.
Fingerprint fingerprint_of(const RowPlan& row);

/// The properties of all rows of a plan, each with the values that it takes in turn, and a hash of all rows.
Fingerprint fingerprint_of(const std::vector<RowPlan>& rows);

/// Shapes, strides and values (as a hash) of a network's tensors.
Fingerprint fingerprint_of(const replica::Parameters& parameters);

/// A hash that differs when any name or value does.
uint64_t hash_of(const Fingerprint& fingerprint);

/// "rank 2 has", "ranks 1, 2 have".
std::string ranks_have(const std::vector<int>& ranks);

/// The differences of the ranks from rank 0: "rank 2 has seed 7, rank 0 has seed 1". Hashes are named only if
/// nothing else differs. Empty if all ranks are alike.
std::string difference_text(const std::vector<Fingerprint>& by_rank);

}  // namespace lockstep::train
