#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/results/record/run_record.h"
#include "lockstep/results/tables/document.h"
#include "lockstep/results/tables/labels.h"
#include "lockstep/results/tables/row_tables.h"
#include "lockstep/topology/system.h"

namespace lockstep::results {

// Tables of a record, each built here once for every form. A document is empty where the record holds nothing
// to show in it.

/// One table per model, batch and whatever else was swept, in the form of PyTorch's DDP benchmark: a row
/// without a strategy, then one per number of ranks, with p50, p75, p90 and p95 as seconds per iteration and
/// examples per second (of one rank: batch / seconds). "-" where there are too few steps.
Document ddp_tables(const RunRecord& record);

/// One table per model and batch: images per second of the whole job with their interval, speed-up and
/// efficiency against the baseline that is printed with it, beside the `independent` control. At most 100
/// columns wide as long as no more than three other settings were swept.
Document scaling_tables(const RunRecord& record);

/// A part of a step: "waiting".
struct Phase {
  const char* name;
  double PhaseTimes::*seconds;
};
/// In the order of a step.
inline constexpr std::array<Phase, 7> kPhases{{{"input", &PhaseTimes::input_s},
                                               {"forward", &PhaseTimes::forward_s},
                                               {"backward", &PhaseTimes::backward_s},
                                               {"waiting", &PhaseTimes::waiting_s},
                                               {"transfer", &PhaseTimes::transfer_s},
                                               {"optimizer", &PhaseTimes::optimizer_s},
                                               {"other", &PhaseTimes::other_s}}};

/// Phases of a step in milliseconds and as shares, for rows with a breakdown.
Document phases_tables(const RunRecord& record);
/// One such table of runs that have a breakdown, with the caller's columns to name them.
Table phases_table(const std::vector<const Run*>& rows, const std::vector<RunColumn>& names);
/// `recorded`: the phases are those of a recorded training.
std::vector<Remark> phases_remarks(bool recorded = false);

/// The mean step of the first ranks, drawn: phases and buckets. For the record's only row with buckets in its
/// breakdown; empty where there are none or several.
Document timeline(const RunRecord& record);

/// The first buckets of rows with a breakdown, with the bandwidth that each reached.
Document buckets_tables(const RunRecord& record);

/// Efficiency and the factors that multiply to it, the share of communication that was hidden, and the rank
/// that the others waited for, for rows that have any of these.
Document factors_tables(const RunRecord& record);
bool has_factors(const Run& run);
Table factors_table(const std::vector<const Run*>& rows, const std::vector<RunColumn>& names);
std::vector<Remark> factors_remarks();

/// Use of the input's queues, for rows whose input has some.
Document input_tables(const RunRecord& record);

/// Memory that a replica of each row with a breakdown keeps from step to step.
Document memory_tables(const RunRecord& record);

/// Clocks, temperature, power and use of the GPUs while each row was measured.
Document gpu_tables(const RunRecord& record);

/// Measurements that strategies make of themselves.
Document measures_tables(const RunRecord& record);

/// Bucket cap found for each row that was tuned, and its gain.
Document tuning_remarks(const RunRecord& record);

/// The head of the table that a training prints as it goes, and a line of it, each with its end. Without
/// `evaluated` it lacks the columns of evaluation. `unit`: Setup::unit.
std::string epochs_head(bool evaluated, const std::string& unit);
std::string epoch_line(const EpochRecord& epoch, bool evaluated);
/// The whole table.
Document epochs_table(const TrainingRecord& training);

/// Replicas that were compared while they trained, how often, and which were not and why.
Document replica_checks_remark(const RunRecord& record);

/// The run that stands for the records: the fastest one with the most ranks that have a core each, in the
/// first record that has any; a control only if there is nothing else.
std::optional<LabelledRun> headline_run(std::span<const NamedRecord> records);

/// "one rank without a strategy", or "2 ranks with ddp".
std::string baseline_words(const Run& run);

/// Flags of `lockstep bench`, without dashes, of no use for a launch of a comparison, or that `lockstep
/// compare` sets itself.
inline constexpr std::array<std::string_view, 14> kFlagsOfALaunch{
    "json",       "append",   "csv",     "trace", "force", "repeat", "style",
    "epoch-size", "markdown", "dry-run", "quiet", "q",     "tune",   "max-time"};

/// The answer in three sentences at most: the result, what it is lost to or compares with, and what is
/// missing, the last two with the command to go on with. One more for every other record and publication.
Document explanation(const Sources& sources);

// Tables of a machine.

/// Packages, caches, NUMA nodes and devices of a system, and where there are GPUs the paths between devices
/// with what their names mean.
Document system_tables(const topology::System& system);

/// Paths in the layout of `nvidia-smi topo -m`: a row and a column per device, beside the rows of GPUs the
/// hardware threads and the NUMA node near them, where they are known.
std::string path_matrix(const topology::DeviceMap& map);

}  // namespace lockstep::results
