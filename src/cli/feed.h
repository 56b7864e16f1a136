#pragma once

#include <string>

#include <CLI/App.hpp>

#include "lockstep/feed/random_batches.h"

namespace lockstep::cli {

/// What `lockstep feed` is told.
struct FeedOptions {
  std::string address;
  /// Of the job that is fed.
  int ranks = 1;
  feed::BatchShape shape;
  int64_t classes = 1000;
  uint64_t seed = 1;
  /// Images per second; 0: as fast as they are taken.
  double rate = 0;
  /// Batches; 0: until nobody takes any for timeout_s, or until it is interrupted.
  int64_t count = 0;
  int prefetch = 4;
  double timeout_s = 30;
  bool quiet = false;
};

void add_feed_flags(CLI::App& command, FeedOptions& options);

/// Sends random batches to the ranks of a bench with the input `zmq`. Returns the exit code.
int run_feed(const FeedOptions& options);

}  // namespace lockstep::cli
