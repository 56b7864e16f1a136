#include "lockstep/comm/gloo/gloo_reduce_scatter.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "lockstep/comm/element_reduce.h"
#include "lockstep/comm/gloo/gloo_context.h"

namespace lockstep::comm {
namespace {

constexpr size_t kLargestSegmentBytes = 256 * 1024;
/// Segments in flight at once: one travels while the one before is being combined.
constexpr size_t kInFlight = 2;

/// How a part is cut. At least kInFlight segments: a segment is passed on `count` steps after it arrived, and
/// only the last kInFlight arrivals may still be uncombined then.
struct Segments {
  size_t count;
  size_t elements;

  Segments(size_t part_elements, size_t width) {
    const size_t largest = kLargestSegmentBytes / width;
    count = std::max(kInFlight, (part_elements + largest - 1) / largest);
    elements = (part_elements + count - 1) / count;
  }
};

}  // namespace

void gloo_ring_reduce_scatter(gloo::Context& context, const Collective& collective, uint32_t tag,
                              Deadline deadline) {
  const Buffer& input = collective.input;
  const Buffer& output = collective.output;
  const size_t size = size_t(context.size);
  const size_t rank = size_t(context.rank);
  const int next = int((rank + 1) % size);
  const int previous = int((rank + size - 1) % size);
  const size_t part = output.count;
  const size_t width = element_bytes(input.dtype);
  const Segments segments(part, width);
  const ReduceFunction combine = reduce_function(input.dtype, collective.op);
  // A first byte that none of Gloo's own collectives uses (gloo/types.h).
  const uint64_t slot = uint64_t{0x40} << 56 | uint64_t{tag} << 24;

  const std::unique_ptr<char[]> scratch(new char[kInFlight * segments.elements * width]);
  const auto own = context.createUnboundBuffer(input.data, input.bytes());
  const auto arriving = context.createUnboundBuffer(scratch.get(), kInFlight * segments.elements * width);

  // Step i of the ring sends segment i % count of part (rank - 1 - i / count) and receives the same segment
  // of the part before it. With 3 ranks, rank r sends in these rounds (of `count` steps each):
  //
  //   round 0   part r-1, its own contribution    -> rank r+1 adds it to its part r-1
  //   round 1   part r-2, two ranks' sum by now   -> rank r+1, which owns part r-2 = r+1: done
  struct Piece {
    size_t offset;  // bytes in input
    size_t count;   // elements
  };
  const auto piece = [&](size_t i, size_t parts_back) -> Piece {
    const size_t which = (rank + 2 * size - parts_back - i / segments.count) % size;
    const size_t first = std::min(part, i % segments.count * segments.elements);
    return {(which * part + first) * width, std::min(segments.elements, part - first)};
  };
  const auto scratch_offset = [&](size_t i) { return i % kInFlight * segments.elements * width; };

  const size_t steps = (size - 1) * segments.count;
  for (size_t i = 0; i < steps + kInFlight; ++i) {
    if (i >= kInFlight) {
      const size_t done = i - kInFlight;
      const Piece received = piece(done, 2);
      if (received.count > 0) {
        arriving->waitRecv(nullptr, milliseconds_left(deadline));
        char* place = static_cast<char*>(input.data) + received.offset;
        combine(place, place, scratch.get() + scratch_offset(done), received.count);
      }
      if (piece(done, 1).count > 0) own->waitSend(nullptr, milliseconds_left(deadline));
    }
    if (i < steps) {
      const Piece received = piece(i, 2);
      const Piece sent = piece(i, 1);
      if (received.count > 0) arriving->recv(previous, slot, scratch_offset(i), received.count * width);
      if (sent.count > 0) own->send(next, slot, sent.offset, sent.count * width);
    }
  }
  const char* mine = static_cast<const char*>(input.data) + rank * part * width;
  if (mine != output.data) std::memcpy(output.data, mine, output.bytes());
}

}  // namespace lockstep::comm
