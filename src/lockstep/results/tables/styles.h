#pragma once

#include <string>

#include "lockstep/results/tables/render.h"
#include "lockstep/results/record/run_record.h"

namespace lockstep::results {

// One function per style or part of one; each gives tables, or one line that says what the record lacks.

/// As pytorch_throughput prints: forward, backward and overall images per second, speed-up. Forward is over
/// the forward phase of the breakdown; backward, as there, over all from the loss to the end of the update.
std::string throughput_style(const RunRecord& record, const RenderOptions& options);

/// As Theano-MPI prints: seconds per 5120 images in training, communication and synchronisation, and hours
/// per epoch; both speed-ups, the honest one and Theano-MPI's own, which leaves synchronisation out. The
/// shares are those of the breakdown, of the mean step of the throughput run.
std::string theano_style(const RunRecord& record, const RenderOptions& options);

/// As tensorpack's benchmarks print: a row per number of ranks, a column per strategy, and the inputs of a
/// sweep in one field, from the nearest to the device to the farthest.
std::string tensorpack_style(const RunRecord& record, const RenderOptions& options);

/// Where the time of a step goes: milliseconds and shares of the phases, for rows with a breakdown. Empty
/// where there is none.
std::string phases_tables(const RunRecord& record, TextForm form);

/// What each row reaches of the processor's limit. Empty where that was not measured.
std::string limit_tables(const RunRecord& record, TextForm form);

/// What the layers of each row take, worst first. Empty where they were not timed.
std::string layers_tables(const RunRecord& record, TextForm form);

/// Efficiency and the factors that multiply to it, the share of communication that was hidden, and who was
/// waited for. Empty where no row has any of these.
std::string factors_tables(const RunRecord& record, TextForm form);

/// How the queues of the input were used, for rows whose input has some. Empty where there is none.
std::string input_tables(const RunRecord& record, TextForm form);

/// What a replica of each row with a breakdown keeps from step to step. Empty where there is none.
std::string memory_tables(const RunRecord& record, TextForm form);

/// What the GPUs did while each row was measured. Empty where no row had one.
std::string gpu_tables(const RunRecord& record, TextForm form);

/// Which cap of a bucket was found for each row that looked for one, and what it brings. Empty where none
/// did.
std::string tuning_text(const RunRecord& record, TextForm form);

/// Which replicas were compared while they trained, how often, and which not and why. Empty where none was
/// asked for.
std::string checks_text(const RunRecord& record, TextForm form);

/// What strategies measured of themselves, for rows whose strategy does. Empty where there is none.
std::string measures_tables(const RunRecord& record, TextForm form);

}  // namespace lockstep::results
