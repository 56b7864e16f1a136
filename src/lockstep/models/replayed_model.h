#pragma once

#include <string>

#include "lockstep/models/model.h"

namespace lockstep::models {

/// Whether a model's name is that of a recorded training: "replay:run.json", or "replay-means:run.json".
bool is_replay(const std::string& name);

/// A network with the parameters of a recorded training, whose passes take the recorded times: those of a
/// recorded step, drawn anew in every step, or with "replay-means" the means. Gradients are final when they
/// were. What the recorded optimizer took longer than lockstep's update is part of the forward pass. Rank r
/// takes the times of the recorded rank r, and those beyond start again at 0. A training that ran on
/// processors is replayed by keeping one busy for as long as it was then, so ranks that share a core slow
/// each other down; of one on GPUs the thread sleeps.
///
/// The loss is half the sum of the squared parameters times the mean of the batch (one number per sample), so
/// strategies can be proved with it. The reported one is that of the smallest parameter alone.
/// Throws ConfigError that names the file.
ModelInfo replayed_network(const std::string& name);

}  // namespace lockstep::models
