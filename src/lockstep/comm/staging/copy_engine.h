#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace lockstep::comm {

/// Copies between a device's memory and the host's, asynchronous and in order within each of two lanes.
/// Staging sees a device only through this interface, so that nothing but the engine's plugin links the
/// device's library. All calls are thread-safe; they throw CommError, and ConfigError for a stream that is
/// being captured.
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

  /// Pinned host memory, from and to which copies are fast. Allocating is slow: reuse it.
  virtual std::shared_ptr<std::byte> host_memory(size_t bytes) = 0;

  /// Marks the end of what `stream`, one of the device's own, holds now.
  virtual MarkPtr mark_stream(void* stream) = 0;
  /// Marks the end of what the lane holds now.
  virtual MarkPtr mark_lane(Lane lane) = 0;
  /// Work queued on the lane after this call starts once `mark` has been reached.
  virtual void hold_lane(Lane lane, const Mark& mark) = 0;

  /// Queues a copy of `rows` rows of `row_bytes` each; rows start `pitch` bytes apart. Either side may be on
  /// the device.
  virtual void copy(Lane lane, void* to, size_t to_pitch_bytes, const void* from, size_t from_pitch_bytes,
                    size_t row_bytes, size_t rows) = 0;

  /// Blocks, asleep, until the device has reached `mark`, which depends on no other rank.
  virtual void wait(const Mark& mark) = 0;
  virtual bool reached(const Mark& mark) = 0;
};

constexpr uint32_t kCopyEnginePluginAbiVersion = 1;

/// Contents of the plugin lockstep_cuda_copies.so, from its one symbol, `lockstep_copy_engine_plugin`.
struct CopyEnginePluginV1 {
  uint32_t abi_version;
  /// The engine of GPU number `device` of this process. Throws BackendMissing, ConfigError, CommError. The
  /// caller owns it.
  CopyEngine* (*open)(int device);
};

/// The copy engine of GPU number `device`, from the plugin, which is opened once per process and never
/// closed. Thread-safe. Throws BackendMissing, which says what to install, and ConfigError for a number that
/// no GPU has.
std::shared_ptr<CopyEngine> open_copy_engine(int device);

/// Opens the plugin without touching a GPU. Throws BackendMissing.
void require_copy_engine();

}  // namespace lockstep::comm
