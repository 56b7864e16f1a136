#pragma once

#include <optional>
#include <string>

#include "lockstep/results/tables/document.h"
#include "lockstep/results/tables/labels.h"

namespace lockstep::results {

/// The run that stands for the sources: the fastest one with the most ranks in the first record that has any;
/// a control only if there is nothing else.
std::optional<LabelledRun> headline_run(const Sources& sources);

/// "one rank without a strategy", or "2 ranks with ddp".
std::string baseline_words(const Run& run);

/// The result in a sentence, and its causes: phases, factors of the efficiency, the rank that the others
/// waited for, the uncertainty, other networks, strategies, records and publications; then missing
/// measurements, each with the command that makes it. Facts that the records lack are left out.
Document explanation(const Sources& sources);

}  // namespace lockstep::results
