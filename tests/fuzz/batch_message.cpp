#include <cstring>
#include <stdexcept>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/feed/message.h"

#include "fuzz/reader.h"

namespace lockstep::fuzz {

bool reads_batch_message(std::string_view text) {
  const feed::WantedBatch wanted{.shape = {.batch = 2, .channels = 3, .image_size = 4}, .classes = 10};
  // A copy of its own length, so that a step beyond its end is seen.
  const std::vector<char> message(text.begin(), text.end());
  const std::string_view bytes(message.data(), message.size());
  feed::is_farewell(bytes);
  try {
    const feed::BatchView view = feed::parse_message(bytes, wanted, "message 1");
    for (int64_t i = 0; i < wanted.shape.batch; ++i) {
      int64_t label = 0;
      std::memcpy(&label, view.labels + 8 * i, sizeof label);
      if (label < 0 || label >= wanted.classes) throw std::logic_error("a label of no class");
    }
    int sum = 0;
    for (int64_t i = 0; i < wanted.shape.bytes(); ++i) sum += view.pixels[i];
    if (sum > 255 * wanted.shape.bytes()) throw std::logic_error("more than white");
  } catch (const Error&) {
    return false;
  }
  return true;
}

}  // namespace lockstep::fuzz
