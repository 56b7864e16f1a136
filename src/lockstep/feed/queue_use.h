#pragma once

#include <cstdint>
#include <string>

namespace lockstep::feed {

/// Counts of one queue of batches on one rank. The first batch is left out, before which nothing could be
/// ready. (results::InputQueue has the figures that follow from the counts of all ranks.)
struct QueueUse {
  std::string name;
  /// Batches that it holds besides the one that its consumer has.
  int capacity = 0;
  int producers = 1;
  int64_t images_per_batch = 0;
  /// Size of 8-bit pixels.
  int64_t bytes_per_batch = 0;

  /// Batches taken so far, and the seconds spent taking them.
  int64_t batches = 0;
  double elapsed_s = 0;
  /// Sum over `batches` of the number ready at the time when one was wanted.
  int64_t ready = 0;
  /// Times that no batch was ready when one was wanted, and the seconds that the consumer waited for these.
  int64_t empty = 0;
  double empty_s = 0;
  /// Times that a producer found no room, and the seconds that it waited.
  int64_t full = 0;
  double full_s = 0;
  /// Batches made, and the seconds of work on them, without waiting.
  int64_t made = 0;
  double made_s = 0;
  /// Batches of strangers that were not taken, and what the first of them was; empty without any.
  int64_t refused = 0;
  std::string first_refused;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& use) {
    fields("name", use.name);
    fields("capacity", use.capacity);
    fields("producers", use.producers);
    fields("images_per_batch", use.images_per_batch);
    fields("bytes_per_batch", use.bytes_per_batch);
    fields("batches", use.batches);
    fields("elapsed_s", use.elapsed_s);
    fields("ready", use.ready);
    fields("empty", use.empty);
    fields("empty_s", use.empty_s);
    fields("full", use.full);
    fields("full_s", use.full_s);
    fields("made", use.made);
    fields("made_s", use.made_s);
    fields("refused", use.refused);
    fields("first_refused", use.first_refused);
  }
};

}  // namespace lockstep::feed
