#pragma once

#include <string>
#include <vector>

#include "lockstep/plots/curves.h"

namespace lockstep::plots {

/// Sentences about one run: where its step goes, what its efficiency is lost to (largest first), who was
/// waited for, how sure its median is, what memory it took. What the run does not know is left out.
std::vector<std::string> explain(const results::Run& run);

/// How the run compares with others of its work on as many workers: other strategies, the same run in other
/// records, published results of the same network.
std::vector<std::string> compare(const Sources& sources, const LabelledRun& run);

}  // namespace lockstep::plots
