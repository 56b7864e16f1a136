#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include <c10/core/Stream.h>

namespace lockstep::replica {

/// Hands out streams and takes them back. LibTorch has 32 streams per GPU, which it hands out in turn, so
/// so a program that asks once per row soon shares a stream with the training, and overlaps nothing with it.
/// It also caches memory and cuBLAS work spaces per stream: a new stream for every row would need more memory
/// with every row. Thread-safe.
class StreamPool {
 public:
  /// LibTorch's next stream of the device.
  using Draw = std::function<c10::Stream()>;

  /// The stream that was given back last, because its memory is most likely still cached; without one, a
  /// stream without an owner. If all are in use, one of them.
  c10::Stream take(c10::Device device, const Draw& draw);
  void give_back(c10::Stream stream);

 private:
  std::mutex mutex_;
  std::vector<c10::Stream> idle_;
  std::vector<c10::Stream> in_use_;
};

/// A stream of a GPU for the lifetime of this object, from the process's StreamPool. Work that is left in it
/// then delays its next owner's.
class OwnStream {
 public:
  explicit OwnStream(c10::Device device);
  ~OwnStream();
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

  c10::Stream get() const { return stream_; }

 private:
  c10::Stream stream_;
};

}  // namespace lockstep::replica
