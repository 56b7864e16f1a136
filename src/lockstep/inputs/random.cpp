#include <algorithm>
#include <thread>

#include "lockstep/feed/random_batches.h"
#include "lockstep/inputs/sources.h"
#include "lockstep/inputs/staged.h"

namespace lockstep::inputs {
namespace {

feed::RandomBatches random_batches(const InputOptions& options) {
  return {shape_of(options), options.classes, options.seed, options.rank, options.ranks};
}

/// Makes a batch on the stager's request.
class HostMaker final : public HostSource {
 public:
  explicit HostMaker(const InputOptions& options)
      : batches_(random_batches(options)), workers_(std::max(1, options.workers)) {
    memory_.fit(options.batch, batches_.shape().image_bytes());
  }

  void skip(int64_t batches) override { next_ += batches; }

  std::optional<HostBatch> next() override {
    const int64_t number = next_++;
    const int64_t samples = batches_.shape().batch;
    const auto make = [&](int64_t worker) {
      batches_.make_part(number, samples * worker / workers_, samples * (worker + 1) / workers_,
                         memory_.pixels.data(), memory_.labels.data());
    };
    // Starting a thread takes about 20 us; a batch takes milliseconds.
    std::vector<std::jthread> others;
    for (int worker = 1; worker < workers_; ++worker) others.emplace_back(make, worker);
    // This thread makes a share too, so one worker needs no other thread.
    make(0);
    others.clear();
    return memory_.view();
  }

 private:
  feed::RandomBatches batches_;
  int workers_;
  HostMemory memory_;
  int64_t next_ = 0;
};

}  // namespace

std::unique_ptr<Input> create_host_input(const InputOptions& options) {
  return std::make_unique<StagedInput>(options, feed::scaling_of_noise(),
                                       std::make_unique<HostMaker>(options));
}

std::unique_ptr<Input> create_queue_input(const InputOptions& options) {
  const int workers = std::max(1, options.workers);
  const auto make_batch = [batches = random_batches(options)](int64_t number, HostMemory& memory) {
    memory.fit(batches.shape().batch, batches.shape().image_bytes());
    batches.make(number, memory.pixels.data(), memory.labels.data());
  };
  return std::make_unique<StagedInput>(
      options, feed::scaling_of_noise(),
      std::make_unique<HostQueue>(queue_of(options, "made", std::max(1, options.prefetch), workers),
                                  "ls-producer", [make_batch] { return make_batch; }));
}

}  // namespace lockstep::inputs
