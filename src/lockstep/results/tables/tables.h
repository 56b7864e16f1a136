#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/registry.h"
#include "lockstep/results/record/run_record.h"
#include "lockstep/results/tables/document.h"
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

// Recorded trainings.

/// Collectives of fewer bytes take as long as their rounds do: latency.
inline constexpr int64_t kLatencyBytes = 100'000;
/// The fewest steps in the window that tell a cause from chance.
inline constexpr int kFewestSteps = 3;

/// Why a recorded training is slower than it could be.
struct Cause {
  /// docs/your-training.md says what tells each.
  enum class Kind {
    kThreads,
    kWarmUp,
    kSlowRank,
    kUnequalBatches,
    kUnequalSizes,
    kInput,
    kFewInputs,
    kReducedTooOften,
    kBuffers,
    kBlocking,
    kManyCollectives,
    kLatency,
    kAfterBackward,
    kOneBucket,
    kSlowLink,
    kLinkOrLateRanks,
    kSynchronizing,
    kSlowHost,
    kSkippedUpdates,
    kPeriodic
  };
  Kind kind;
  /// Seconds per step that it costs; 0: not known.
  double lost_s = 0;
  /// The number behind it, as a clause: "rank 1's input takes 25.0 ms longer than that of the others".
  std::string text;
  /// A sentence.
  std::string advice;
};

/// Causes of a recorded run, first those whose cost is not known, then the largest: those that cover 80 % of
/// what they explain (waiting, transfer, or the input itself) and cost 2 % of a step or more. Of causes of
/// the same milliseconds there is one. Empty for a healthy run, for one that was not recorded, and for fewer
/// than kFewestSteps.
std::vector<Cause> causes_of(const Run& run);

/// Sentences about a recorded run: how it scales and where a step goes, then each cause with what to do, then
/// what the record cannot say.
std::vector<std::string> recorded_sentences(const RunRecord& record, const Run& run);

/// How each recorded run of the record was recorded: by what, ranks, steps that were left out, the window's
/// cost, process groups, and what is missing or was assumed.
Document recorded_remarks(const RunRecord& record);

// Circumstances of a measurement, and warnings.

/// One circumstance of a measurement: "Processor" and its name.
struct Fact {
  std::string name;
  std::string value;
  /// Lines below the value whose columns must stay as they are. Empty: none.
  std::string lines = {};
};

/// Versions, machines, ranks and how they were pinned, command and time. Facts that the record lacks are left
/// out. Of a job on many machines the first `most_machines` are described.
std::vector<Fact> facts_of(const RunRecord& record, size_t most_machines = SIZE_MAX);

/// The facts of a record as a list for a terminal, and its warnings, each with its advice. Ends with a
/// newline.
std::string header_text(const RunRecord& record, const TextForm& form = {});

/// "resnet50, fp32, batch 8: fused, chosen over aten: 0.58 s against 1.19 s"; empty for none.
std::string trials_text(const std::vector<KernelTrial>& trials);

/// "aten, fused (oneDNN 3.2.0, avx512_core)"; empty where the record does not say.
std::string kernels_text(const RunRecord& record);

/// A warning and its advice, wrapped; a loud one between two lines that are hard to miss, unless colors do.
std::string warning_text(const Warning& warning, const TextForm& form = {});

/// Warnings of the whole record. Warnings of several launches that differ in their figures only become one,
/// with the number of launches.
std::vector<Warning> warnings_of_record(const RunRecord& record);

/// Warnings of the record's rows. Warnings with the same advice become one: the text of the first row, the
/// names of some others, and in how many launches.
std::vector<Warning> warnings_of_rows(const RunRecord& record);

/// Warnings of the record and of its rows, and the reason why it is incomplete, for a terminal; empty
/// where there are none.
std::string closing_text(const RunRecord& record, const TextForm& form = {});

// All tables of a record in a style.

/// Training images of ImageNet: the epoch of Theano-MPI's hours per epoch.
constexpr int64_t kImageNetImages = 1281167;

struct RenderOptions {
  /// A name of styles().
  std::string style = "lockstep";
  TextForm form;
  /// Images per epoch, for the style "theano".
  int64_t epoch_size = kImageNetImages;
};

/// One way of writing the tables of a record.
struct Style {
  /// Contents, for help texts.
  const char* what;
  Document (*tables)(const RunRecord& record, const RenderOptions& options);
  /// Empty without a breakdown.
  bool needs_breakdown = false;
};

/// Every style by name, lockstep's own first.
const Registry<Style>& styles();

/// The tables of `record`, without header and closing words, as text that ends with a newline. Throws
/// ConfigError, with the nearest names, for an unknown style.
std::string render(const RunRecord& record, const RenderOptions& options = {});

}  // namespace lockstep::results
