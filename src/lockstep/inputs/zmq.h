#pragma once

#include "lockstep/inputs/input.h"

namespace lockstep::inputs {

/// Batches that other processes send through ZeroMQ: this rank binds its own address
/// (feed::address_of_rank(InputOptions::address, rank)), and producers connect to it. A thread takes messages
/// into a queue of InputOptions::prefetch; while that is full, producers wait. Every message must be exactly
/// one batch of what is asked for (feed::parse_message). Normalised as random images are.
///
/// next() throws Error for a message that is anything else, and when none came for InputOptions::timeout_s.
/// skip() leaves nothing out: what comes next is the producers' choice. Creation throws ConfigError when the
/// address cannot be bound.
std::unique_ptr<Input> create_zmq_input(const InputOptions& options);

}  // namespace lockstep::inputs
