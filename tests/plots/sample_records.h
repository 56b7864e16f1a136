#pragma once

#include "lockstep/results/tables/row_tables.h"

namespace lockstep::plots {

using results::NamedRecord;
using results::Sources;

/// A sweep of resnet50 over 1, 2, 4 and 8 ranks with ddp, its controls, breakdowns with buckets, intervals,
/// factors and memory; the same numbers on every call. `slower` scales every time.
results::RunRecord sweep_record(double slower = 1);

/// Its rows of up to two ranks, with few steps: for golden files.
results::RunRecord small_record();

/// The same without anything that only `--breakdown` and newer versions give.
results::RunRecord plain_record();

/// A fast and a slow network, each with two strategies and both controls at 1 and 2 ranks, and with the
/// warnings of five launches. The fast one is slower at 2 ranks, where its baseline was disturbed.
results::RunRecord networks_record();

/// Three networks, two strategies and two bucket sizes: more curves and rows than a chart holds.
results::RunRecord crowded_record();

/// ddp and replicated at 2 ranks with buckets of 0.1, 1, 5 and 25 MiB, and four more strategies; 13 curves.
results::RunRecord bucket_record();

/// Three epochs, evaluated.
results::RunRecord training_record();

/// One run of `ranks` ranks, with breakdown and memory of each.
results::RunRecord huge_record(int ranks);

/// Numbers that are not finite, empty series, hostile and very long names.
results::RunRecord broken_record();

/// Forecast from the last run of ddp in the record, up to 8 times its ranks.
std::vector<results::Forecast> sample_forecast(const results::RunRecord& record);

/// Text that would be markup if it were not escaped, with control characters and invalid UTF-8.
extern const char* const kHostileText;

/// The published records that come with lockstep; theano_mpi is the last.
std::vector<NamedRecord> shipped_records();

}  // namespace lockstep::plots
