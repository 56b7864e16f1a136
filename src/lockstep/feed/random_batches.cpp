#include "lockstep/feed/random_batches.h"

#include "lockstep/base/stream_seed.h"
#include "lockstep/feed/noise.h"

namespace lockstep::feed {

void RandomBatches::make_part(int64_t number, int64_t first, int64_t end, uint8_t* pixels,
                              int64_t* labels) const {
  const int64_t before = (number * ranks_ + rank_) * shape_.batch;
  const int64_t image_bytes = shape_.image_bytes();
  for (int64_t i = first; i < end; ++i) {
    const auto sample = static_cast<uint64_t>(before + i);
    fill_with_noise(stream_seed(seed_, "pixels", sample),
                    {pixels + i * image_bytes, static_cast<size_t>(image_bytes)});
    labels[i] = static_cast<int64_t>(stream_seed(seed_, "label", sample) % static_cast<uint64_t>(classes_));
  }
}

Scaling scaling_of_noise() {
  return scaling_of({kNoiseMean, kNoiseMean, kNoiseMean},
                    {kNoiseDeviation, kNoiseDeviation, kNoiseDeviation});
}

}  // namespace lockstep::feed
