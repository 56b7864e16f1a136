#pragma once

#include <string>

#include "lockstep/results/record/run_record.h"
#include "lockstep/results/tables/text_table.h"

namespace lockstep::results {

/// What the run was made with, for a terminal: versions, machines, ranks and how they were pinned, and every
/// warning with what to do about it. Ends with a newline, as all of these.
std::string header_text(const RunRecord& record);

/// "aten, fused (oneDNN 3.2.0, avx512_core)"; empty where the record does not say.
std::string kernels_text(const RunRecord& record);

/// One table per model, batch and whatever else was swept, in the form of PyTorch's DDP benchmark: a row
/// without a strategy, then one per number of ranks, with p50, p75, p90 and p95 as seconds per iteration and
/// examples per second (of one rank: batch / seconds). "-" where there are too few steps.
std::string ddp_tables(const RunRecord& record, TextForm form = TextForm::kTerminal);

/// One table per model and batch: images per second of the whole job with their interval, speed-up and
/// efficiency against the baseline that is printed with it, beside the `independent` control. At most 100
/// columns wide as long as no more than three other settings were swept.
std::string scaling_tables(const RunRecord& record, TextForm form = TextForm::kTerminal);

/// Warnings of the record and of its runs, and why it is incomplete if it is; empty when there is nothing to
/// say.
std::string closing_text(const RunRecord& record);

}  // namespace lockstep::results
