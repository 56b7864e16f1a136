#include "lockstep/replica/own_stream.h"

#include <algorithm>
#include <iterator>

#include <c10/core/impl/VirtualGuardImpl.h>

namespace lockstep::replica {
namespace {

/// LibTorch's streams per GPU and priority.
constexpr int kStreamsOfLibTorch = 32;

/// Lives as long as the process.
StreamPool& process_streams() {
  static auto* const streams = new StreamPool;
  return *streams;
}

}  // namespace

c10::Stream StreamPool::take(c10::Device device, const Draw& draw) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(idle_.rbegin(), idle_.rend(),
                                  [&](c10::Stream stream) { return stream.device() == device; });
  if (found != idle_.rend()) {
    const c10::Stream stream = *found;
    idle_.erase(std::next(found).base());
    in_use_.push_back(stream);
    return stream;
  }
  c10::Stream stream = draw();
  for (int i = 1; i <= kStreamsOfLibTorch && std::ranges::find(in_use_, stream) != in_use_.end(); ++i) {
    stream = draw();
  }
  in_use_.push_back(stream);
  return stream;
}

void StreamPool::give_back(c10::Stream stream) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(in_use_, stream);
  if (found != in_use_.end()) in_use_.erase(found);
  // Has another owner still if all streams were in use.
  if (std::ranges::find(in_use_, stream) == in_use_.end()) idle_.push_back(stream);
}

OwnStream::OwnStream(c10::Device device)
    : stream_(process_streams().take(device, [device] {
        return c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
      })) {}

OwnStream::~OwnStream() {
  process_streams().give_back(stream_);
}

}  // namespace lockstep::replica
