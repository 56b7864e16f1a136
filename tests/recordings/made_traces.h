#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace lockstep::recordings {

/// A job of data-parallel training, as the profiler of each of its ranks would see it. Times in microseconds.
///
///   |next|late|forward          |backward                |exposed        |optimizer|
///   host  ...  conv2d            node node node ...                        Optimizer.step
///   backend                            |all-reduce 1|   |all-reduce 2    |
struct MadeJob {
  int world = 2;
  int steps = 6;
  double input_us = 1000;
  double forward_us = 4000;
  double backward_us = 8000;
  double transfer_us = 1500;
  double optimizer_us = 500;
  /// [rank]: what its forward pass is late by.
  std::vector<double> late_us = {0, 0};
  int gradients = 4;
  int buckets = 2;
  int64_t bucket_elements = 1000;
  int64_t batch = 32;
  /// Micro-batches of a step, and whether all of them reduce their gradients.
  int passes = 1;
  bool reduce_each_pass = false;
  /// The loader is asked for all micro-batches of a step first.
  bool fetch_first = false;
  /// Batches without backward after every so many steps; 0: never.
  int evaluate_every = 0;
  bool loader = true;
  bool optimizer = true;
  /// An optimizer steps after every micro-batch, as the two of a GAN do.
  bool update_each_pass = false;
  /// The recorder marks the ends of steps.
  bool marked = false;
  /// Work between the optimizer and the next batch.
  double after_us = 0;
  /// The network is a data-parallel module.
  bool module = true;
  /// The network is compiled, and without `optimizer` the update, too; as torch 2.0 did, if in the old
  /// format.
  bool compiled = false;
  /// The first layer is an embedding.
  bool embedding = false;
  /// The optimizer calls a closure with forward and backward.
  bool closure = false;
  bool profiler_steps = false;
  /// Broadcasts of buffers in the forward pass, which the host waits for.
  double broadcast_us = 0;
  /// Kernels on a device; the host issues them in a tenth of the time.
  bool device = false;
  /// Names and keys as torch 1.13 wrote them: no group, whole microseconds, no base time.
  bool old_format = false;
  /// Added to the clock of every rank but 0.
  double clock_offset_us = 0;
  /// Begins with the last third of a step, and ends with the first.
  bool torn = false;
  std::string kind = "all_reduce";
  std::string group = "0";
  std::string group_ranks = "[0, 1]";
};

/// The traces of its ranks.
std::vector<nlohmann::json> made_traces(const MadeJob& job);

}  // namespace lockstep::recordings
