// Cost of the passes over a batch of the inputs on one core, beside memcpy, and of ZeroMQ between
// two threads on two: a batch of 16 x 224 x 224 unless told otherwise.
//
//   build/bench/input_costs [BATCH] [IMAGE_SIZE] [REPEATS]

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/core.h>
#include <unistd.h>

#include "lockstep/base/clock.h"
#include "lockstep/feed/normalize.h"
#include "lockstep/feed/random_batches.h"
#include "lockstep/feed/receiver.h"
#include "lockstep/feed/sender.h"

namespace {

using namespace lockstep;

/// Median seconds of one call.
double median_s(int repeats, const std::function<void()>& pass) {
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) {
    const double begin_s = now_s();
    pass();
    seconds.push_back(now_s() - begin_s);
  }
  std::nth_element(seconds.begin(), seconds.begin() + repeats / 2, seconds.end());
  return seconds[static_cast<size_t>(repeats / 2)];
}

/// Median seconds from one message to the next, which a thread sends as fast as they are taken. Nothing is
/// put in or looked at.
double median_message_s(size_t bytes, int repeats) {
  const std::string address = fmt::format("ipc://@lockstep-input-costs-{}", ::getpid());
  feed::Receiver receiver({.address = address, .timeout_s = 30});
  std::thread producer([&] {
    feed::Sender sender({.addresses = {address}});
    for (int i = 0; i < repeats + 4; ++i) {
      sender.begin(bytes);
      sender.send();
    }
    sender.finish();
  });
  for (int i = 0; i < 4; ++i) receiver.next();
  const double taken_s = median_s(repeats, [&] { receiver.next(); });
  producer.join();
  return taken_s;
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int i, int otherwise) { return argc > i ? std::atoi(argv[i]) : otherwise; };
  const feed::BatchShape shape{.batch = std::max(1, argument(1, 16)),
                               .image_size = std::max(1, argument(2, 224))};
  const int repeats = std::max(1, argument(3, 101));
  const auto bytes = static_cast<size_t>(shape.bytes());
  std::vector<uint8_t> pixels(bytes), copy(bytes);
  std::vector<int64_t> labels(static_cast<size_t>(shape.batch));
  std::vector<float> floats(bytes);
  const feed::RandomBatches batches(shape, 1000, 1);
  const feed::Scaling scaling = feed::scaling_of_noise();
  int64_t number = 0;
  const auto show = [&](const char* what, double seconds) {
    fmt::print("{:<40} {:8.3f} ms {:7.2f} GB/s of 8-bit pixels\n", what, 1000 * seconds,
               double(bytes) / seconds / 1e9);
  };
  fmt::print("{} x {} x {} x {}: {:.2f} MB, medians of {}\n", shape.batch, shape.image_size, shape.image_size,
             shape.channels, double(bytes) / 1e6, repeats);
  show("random pixels", median_s(repeats, [&] { batches.make(number++, pixels.data(), labels.data()); }));
  show("to float, channels_last", median_s(repeats, [&] {
         feed::normalize_interleaved(pixels.data(), shape.bytes() / 3, 3, scaling, floats.data());
       }));
  show("to float, contiguous", median_s(repeats, [&] {
         const int64_t size = shape.image_bytes();
         for (int64_t i = 0; i < shape.batch; ++i) {
           feed::normalize_planar(pixels.data() + i * size, size / 3, 3, scaling, floats.data() + i * size);
         }
       }));
  show("a message over ipc", median_message_s(bytes, repeats));
  show("memcpy", median_s(repeats, [&] { std::memcpy(copy.data(), pixels.data(), bytes); }));
  return floats[0] > 1e9F || copy[0] != pixels[0] ? 1 : 0;
}
