#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/feed/random_batches.h"

namespace lockstep::feed {

// The protocol between producers and ranks over ZeroMQ, which docs/inputs.md describes for authors of
// producers. Each rank binds an address of its own (PULL); producers connect to all of them (PUSH) and send
// each batch to any rank that has room. One batch is one message. All numbers are little endian:
//   0  8 bytes   "LOCKSTEP"
//   8  uint32    version of this layout, 1
//  12  uint32    what it holds: 1 (images of uint8 pixels), 2 (tensors of a network from a file)
//  16  uint32    images: batch, height, width, channels; tensors: batch, number of tensors, 0, 0
//  32  images:   int64, a label per image; uint8, the pixels, [batch, height, width, channels]
//      tensors:  inputs before targets, as the network's file describes them, [batch, ...], row by row
// and nothing after it. The last message of a producer may be a farewell: the header with a type of 0, and
// zeros up to kFarewellBytes.

constexpr std::string_view kMessageMagic = "LOCKSTEP";
constexpr uint32_t kMessageVersion = 1;
constexpr size_t kMessageHeaderBytes = 32;

/// Size of a message with such a batch.
size_t message_bytes(const BatchShape& shape);

/// The places of labels and pixels in a message.
struct MessageParts {
  /// Aligned as `message` is, by 8.
  int64_t* labels = nullptr;
  uint8_t* pixels = nullptr;
};
/// Writes the header of a message.
MessageParts begin_message(const BatchShape& shape, uint8_t* message);

/// Size of a farewell: larger than the system's buffers of a connection (208 KiB, usually), so that once all
/// of it has been sent, everything before it has been read. Without it batches would be lost: ZeroMQ stops
/// reading while nobody takes its messages, and drops the buffered rest of a local connection once the other
/// end has gone.
constexpr size_t kFarewellBytes = size_t{1} << 20;
std::string farewell();
bool is_farewell(std::string_view message);

/// The batches that a consumer accepts.
struct WantedBatch {
  BatchShape shape;
  int64_t classes = 1000;
};

/// Points into the message.
struct BatchView {
  /// shape.batch of int64; not aligned.
  const uint8_t* labels = nullptr;
  const uint8_t* pixels = nullptr;
};

/// Throws Error that begins with `name` ("message 3 at ipc:///tmp/x") and says what was found and expected,
/// for every message that does not match the layout above and the wanted batch exactly.
BatchView parse_message(std::string_view message, const WantedBatch& wanted, const std::string& name);

/// The parts of a message that parse_message() has found right.
BatchView view_of(std::string_view message, const BatchShape& shape);

/// The batches that a consumer of tensors accepts.
struct WantedTensors {
  int64_t batch = 0;
  /// Of each tensor.
  std::vector<int64_t> bytes_per_sample;
};

/// Size of a message with such a batch.
size_t message_bytes(const WantedTensors& tensors);

/// Writes the header of a message. Returns the place of the first tensor.
char* begin_message(const WantedTensors& tensors, uint8_t* message);

/// Throws as parse_message() does.
void check_tensors(std::string_view message, const WantedTensors& wanted, const std::string& name);

/// The bytes of all tensors in a message that check_tensors() has found right.
std::string_view tensors_of(std::string_view message);

/// The address at which rank `rank` of a job with --address `address` takes its batches: ipc:///tmp/x,
/// ipc:///tmp/x.1, ipc:///tmp/x.2, ...; tcp://127.0.0.1:5555, tcp://127.0.0.1:5556, ... Throws ConfigError
/// for anything but ipc://PATH or tcp://HOST:PORT, and for ports above 65535.
std::string address_of_rank(const std::string& address, int rank);

}  // namespace lockstep::feed
