#pragma once

#include <string>
#include <vector>

#include "train_options.h"

namespace lockstep::cli {

/// Trains one network, and prints a line per epoch.
int run_train(const TrainOptions& options, const std::vector<std::string>& command);

}  // namespace lockstep::cli
