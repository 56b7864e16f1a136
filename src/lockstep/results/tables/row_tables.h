#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/results/record/groups.h"
#include "lockstep/results/record/run_record.h"

namespace lockstep::results {

/// Rows that belong in one table: of the same model, batch and settings, so that ranks and strategy alone
/// tell them apart.
struct RowTable {
  /// "resnet50 with batch size 8 per rank, bf16": with the settings that other tables of it have otherwise.
  std::string title;
  /// Without a strategy first, then strategies in the order of the record by ascending ranks, `independent`
  /// last. Controls are in every table that they fit.
  std::vector<const Run*> rows;
};

/// Pointers into `record`. Rows that differ in the setting `merged` alone ("input") share a table.
std::vector<RowTable> row_tables(const RunRecord& record, std::string_view merged = "");

/// "no ddp" for a run without a strategy, as PyTorch's benchmark has it.
std::string strategy_text(const Run& run);

/// "94.1 %", or "-".
std::string percent_text(const std::optional<double>& share);

/// The 95 % interval of images/s as half its width ("±1.4 %"), or the reason why there is none in a word
/// (short, trend, shift, unsettled); "-" where the record does not say.
std::string uncertainty_text(const Run& run);

/// Digits after the point that leave three or more of the smallest rate.
int rate_digits(const std::vector<const Run*>& rows);

/// What to do where a table wants phases that the record does not have.
extern const char* const kPhasesAdvice;

}  // namespace lockstep::results
