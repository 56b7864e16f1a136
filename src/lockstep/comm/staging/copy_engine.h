#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace lockstep::comm {

/// Copies between a device's memory and the host's, asynchronous and in order within each of two lanes. The
/// one place through which staging sees a device, so that nothing but the engine's plugin links its library.
/// All calls are thread-safe; they throw CommError, and ConfigError for a stream that is being captured.
class CopyEngine {
 public:
  enum class Lane : uint8_t { kOut, kIn };

  /// A point in the work of a lane, or of one of the device's streams.
  class Mark {
   public:
    virtual ~Mark() = default;
  };
  using MarkPtr = std::shared_ptr<const Mark>;

  virtual ~CopyEngine() = default;

  /// Host memory that copies are fast from and to (pinned). Allocating is slow: keep it.
  virtual std::shared_ptr<std::byte> host_memory(size_t bytes) = 0;

  /// All that has been put into `stream`, one of the device's own, so far.
  virtual MarkPtr mark_stream(void* stream) = 0;
  /// All that has been put into the lane so far.
  virtual MarkPtr mark_lane(Lane lane) = 0;
  /// What is put into the lane from now on starts only after `mark`.
  virtual void hold_lane(Lane lane, const Mark& mark) = 0;

  /// Copies `rows` rows of `row_bytes`, each so many bytes behind the one before. Either side may be on the
  /// device.
  virtual void copy(Lane lane, void* to, size_t to_pitch_bytes, const void* from, size_t from_pitch_bytes,
                    size_t row_bytes, size_t rows) = 0;

  /// Blocks, asleep, until the device has come to `mark`. That depends on no other rank.
  virtual void wait(const Mark& mark) = 0;
  virtual bool reached(const Mark& mark) = 0;
};

}  // namespace lockstep::comm
