#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/feed/random_batches.h"

namespace lockstep::feed {

// One batch as one message, which docs/inputs.md describes for those who write a producer. All numbers are
// little endian:
//   0  8 bytes   "LOCKSTEP"
//   8  uint32    version of this layout, 1
//  12  uint32    type of the pixels: 1 (uint8)
//  16  uint32    batch, height, width, channels
//  32  int64     a label per image
//      uint8     the pixels, [batch, height, width, channels]
// and nothing after it. The last message of a producer may be a farewell: the header with a type of 0, and
// zeros up to kFarewellBytes.

constexpr std::string_view kMessageMagic = "LOCKSTEP";
constexpr uint32_t kMessageVersion = 1;
constexpr uint32_t kUint8Pixels = 1;
constexpr size_t kMessageHeaderBytes = 32;

/// Bytes of a message with such a batch.
size_t message_bytes(const BatchShape& shape);

/// Writes the header of a message, and says where its labels and its pixels go.
struct MessageParts {
  /// Aligned as `message` is, by 8.
  int64_t* labels = nullptr;
  uint8_t* pixels = nullptr;
};
MessageParts begin_message(const BatchShape& shape, uint8_t* message);

/// ZeroMQ drops what the system still holds of a local connection whose other end has gone, if it had stopped
/// reading there because nobody took its messages. A farewell is larger than what the system holds of a
/// connection (208 KiB, usually), so once all of it was sent, all before it was read.
constexpr size_t kFarewellBytes = size_t{1} << 20;
std::string farewell();
bool is_farewell(std::string_view message);

/// What a consumer wants.
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

/// Throws Error that begins with `name` ("message 3 at ipc:///tmp/x") and says what was found and what was
/// expected, for every message that is not exactly of the layout above and of what is wanted.
BatchView parse_message(std::string_view message, const WantedBatch& wanted, const std::string& name);

}  // namespace lockstep::feed
