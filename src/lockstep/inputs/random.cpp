#include <algorithm>
#include <thread>

#include "lockstep/feed/random_batches.h"
#include "lockstep/inputs/sources.h"
#include "lockstep/inputs/staged.h"

namespace lockstep::inputs {
namespace {

struct HostMemory {
  std::vector<uint8_t> pixels;
  std::vector<int64_t> labels;

  void fit(const feed::BatchShape& shape) {
    pixels.resize(static_cast<size_t>(shape.bytes()));
    labels.resize(static_cast<size_t>(shape.batch));
  }
  HostBatch view() const { return {pixels.data(), labels.data(), static_cast<int64_t>(labels.size())}; }
};

feed::RandomBatches random_batches(const InputOptions& options) {
  return {shape_of(options), options.classes, options.seed, options.rank, options.ranks};
}

/// Makes a batch on the stager's request.
class HostMaker final : public HostSource {
 public:
  explicit HostMaker(const InputOptions& options)
      : batches_(random_batches(options)), workers_(std::max(1, options.workers)) {
    memory_.fit(batches_.shape());
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

/// Producer threads that fill a ring with batches of consecutive numbers.
class QueueOfMade final : public HostSource {
 public:
  explicit QueueOfMade(const InputOptions& options)
      : batches_(random_batches(options)),
        workers_(std::max(1, options.workers)),
        ring_(queue_of(options, "made", std::max(1, options.prefetch), workers_)) {}

  ~QueueOfMade() override {
    ring_.close();
    for (std::thread& thread : threads_) thread.join();
  }

  void skip(int64_t batches) override { first_ += batches; }

  std::optional<HostBatch> next() override {
    // Started with the first call, after skip().
    for (auto missing = static_cast<int>(threads_.size()); missing < workers_; ++missing) {
      threads_.emplace_back([this] { make(); });
    }
    const HostMemory* memory = ring_.next();
    if (memory == nullptr) return std::nullopt;
    return memory->view();
  }

  void stop() override { ring_.close(); }
  std::vector<feed::QueueUse> queues() const override { return {ring_.use()}; }

 private:
  void make() {
    name_this_thread("ls-producer");
    while (auto place = ring_.claim()) {
      place->slot->fit(batches_.shape());
      batches_.make(first_ + place->number, place->slot->pixels.data(), place->slot->labels.data());
      ring_.publish(*place);
    }
  }

  feed::RandomBatches batches_;
  int workers_;
  int64_t first_ = 0;
  feed::OrderedRing<HostMemory> ring_;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<Input> create_host_input(const InputOptions& options) {
  return std::make_unique<StagedInput>(options, feed::scaling_of_noise(),
                                       std::make_unique<HostMaker>(options));
}

std::unique_ptr<Input> create_queue_input(const InputOptions& options) {
  return std::make_unique<StagedInput>(options, feed::scaling_of_noise(),
                                       std::make_unique<QueueOfMade>(options));
}

}  // namespace lockstep::inputs
