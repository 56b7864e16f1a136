#pragma once

#include <memory>
#include <vector>

#include "lockstep/feed/message.h"
#include "lockstep/inputs/input.h"

namespace lockstep::inputs {

// The inputs of the registry that need no data set; see dataset.h for that one.

/// The number of batches that `device` makes; step s gets batch s modulo this. The same for every batch size
/// and every number of ranks, since it decides which values a step sees. Their memory is 3 % of what resnet50
/// keeps for its backward pass.
constexpr int64_t kDeviceBatches = 4;

/// Random batches made once, on the device, and used in turn: normal images, uniform labels.
std::unique_ptr<Input> create_device_input(const InputOptions& options);

/// A batch of described tensors.
Batch batch_of_tensors(std::vector<at::Tensor> tensors, const InputOptions& options);

// `host` and `queue`: random 8-bit images and random labels, new in every step, by (seed, sample) alone
// (feed::RandomBatches). Skipping batches costs nothing.

/// Makes a batch one step ahead, by InputOptions::workers threads together (1 if it is 0).
std::unique_ptr<Input> create_host_input(const InputOptions& options);

/// Makes batches in InputOptions::workers threads (1 if it is 0), each a batch at a time, into a queue of
/// InputOptions::prefetch batches.
std::unique_ptr<Input> create_queue_input(const InputOptions& options);

/// Batches that other processes send through ZeroMQ: this rank binds its own address
/// (feed::address_of_rank(InputOptions::address, rank)), and producers connect to it. A thread takes messages
/// into a queue of InputOptions::prefetch; while that is full, producers wait. Every message must be exactly
/// one batch as requested (feed::parse_message). Normalized like random images.
///
/// Where InputOptions::described says what a batch consists of, messages bring its tensors.
///
/// next() throws Error for any other message, and if none came for InputOptions::timeout_s. skip() skips
/// nothing: the producers decide what comes next. Creation throws ConfigError if the address cannot be bound.
std::unique_ptr<Input> create_zmq_input(const InputOptions& options);

/// The messages that such an input takes.
feed::WantedTensors wanted_tensors(const InputOptions& options);

}  // namespace lockstep::inputs
