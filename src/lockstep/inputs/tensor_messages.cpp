#include <algorithm>
#include <utility>

#include "lockstep/base/clock.h"
#include "lockstep/base/secret.h"
#include "lockstep/feed/message.h"
#include "lockstep/feed/receiver.h"
#include "lockstep/inputs/batches_ahead.h"
#include "lockstep/inputs/sources.h"

namespace lockstep::inputs {
namespace {

/// A thread that takes messages into a ring.
class TensorMessages final : public Input {
 public:
  explicit TensorMessages(const InputOptions& options)
      : options_(options),
        wanted_(wanted_tensors(options)),
        receiver_(
            {.address = feed::address_of_rank(options.address, options.rank),
             .timeout_s = options.timeout_s,
             .message_bytes = feed::message_bytes(wanted_),
             .token = secret_of_user(),
             .check = [this](std::string_view message,
                             const std::string& name) { feed::check_tensors(message, wanted_, name); }}),
        ahead_(queue_of_described(options, "received", 1), "ls-receiver",
               [this](feed::OrderedRing<Batch>& ring) { receive(ring); }) {}

  ~TensorMessages() override {
    ahead_.close();
    receiver_.stop();
  }

  void skip(int64_t /*batches*/) override {}
  const Batch& next() override { return ahead_.next(); }

  std::vector<feed::QueueUse> queues() const override {
    feed::QueueUse use = ahead_.use();
    const feed::Refused refused = receiver_.refused();
    use.refused = refused.count;
    use.first_refused = refused.first;
    return {use};
  }

 private:
  void receive(feed::OrderedRing<Batch>& ring) {
    while (auto place = ring.claim()) {
      // Room is claimed first: while the queue is full no message is taken, and producers wait.
      const std::optional<feed::ReceivedMessage> message = receiver_.next();
      if (!message) return;
      place->begin_s = now_s();
      *place->slot = batch_of(feed::tensors_of(message->bytes));
      ring.publish(*place);
    }
  }

  Batch batch_of(std::string_view values) const {
    Batch batch{.first_sample = options_.rank * options_.batch};
    for (const Description& described : options_.described) {
      const at::Tensor tensor = empty_batch(described, options_.batch);
      const auto bytes = static_cast<size_t>(described.bytes_per_sample());
      for (int64_t index = 0; index < options_.batch; ++index) {
        place_sample(described, values.substr(0, bytes), index, tensor);
        values.remove_prefix(bytes);
      }
      batch.samples.push_back(tensor);
    }
    batch.images = batch.samples.front();
    batch.labels = batch.samples.back();
    return batch;
  }

  InputOptions options_;
  feed::WantedTensors wanted_;
  feed::Receiver receiver_;
  /// Last: its thread uses all of the above.
  BatchesAhead ahead_;
};

}  // namespace

feed::WantedTensors wanted_tensors(const InputOptions& options) {
  feed::WantedTensors wanted{.batch = options.batch};
  for (const Description& described : options.described) {
    wanted.bytes_per_sample.push_back(described.bytes_per_sample());
  }
  return wanted;
}

std::unique_ptr<Input> create_tensor_messages(const InputOptions& options) {
  return std::make_unique<TensorMessages>(options);
}

}  // namespace lockstep::inputs
