#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/secret.h"
#include "lockstep/feed/message.h"
#include "lockstep/feed/receiver.h"
#include "lockstep/inputs/sources.h"
#include "lockstep/inputs/staged.h"

namespace lockstep::inputs {
namespace {

/// A thread that takes the messages of other processes into a queue, one into each slot.
template <typename Slot>
class MessageQueue {
 public:
  /// `check`: as in feed::ReceiverOptions. `take` puts a message that was checked into its slot.
  MessageQueue(const InputOptions& options, size_t message_bytes,
               std::function<void(std::string_view message, const std::string& name)> check,
               std::function<void(feed::ReceivedMessage message, Slot& slot)> take)
      : receiver_(
            {.address = feed::address_of_rank(options.address, options.rank),
             .producer = fmt::format("lockstep feed --address {} --ranks {}", options.address, options.ranks),
             .timeout_s = options.timeout_s,
             .message_bytes = message_bytes,
             .token = secret_of_user(),
             .check = std::move(check)}),
        take_(std::move(take)),
        ahead_(queue_of(options, "received", std::max(1, options.prefetch), 1), "ls-receiver",
               [this](auto& ring) { receive(ring); }) {}
  ~MessageQueue() { stop(); }
  MessageQueue(const MessageQueue&) = delete;
  MessageQueue& operator=(const MessageQueue&) = delete;

  /// Null after stop().
  Slot* next() { return ahead_.next(); }

  void stop() {
    ahead_.close();
    receiver_.stop();
  }

  feed::QueueUse use() const {
    feed::QueueUse use = ahead_.use();
    const feed::Refused refused = receiver_.refused();
    use.refused = refused.count;
    use.first_refused = refused.first;
    return use;
  }

 private:
  void receive(typename Ahead<Slot>::Ring& ring) {
    while (auto place = ring.claim()) {
      // Claim room first: while the queue is full no message is taken, and producers wait.
      std::optional<feed::ReceivedMessage> message = receiver_.next();
      if (!message) return;
      place->begin_s = now_s();
      take_(std::move(*message), *place->slot);
      ring.publish(*place);
    }
  }

  feed::Receiver receiver_;
  std::function<void(feed::ReceivedMessage message, Slot& slot)> take_;
  /// Last: its thread uses all of the above.
  Ahead<Slot> ahead_;
};

/// A batch in the memory of the message that brought it, except its labels, which are copied for alignment.
struct ReceivedBatch {
  feed::ReceivedMessage message;
  const uint8_t* pixels = nullptr;
  std::vector<int64_t> labels;
};

class ImageMessages final : public HostSource {
 public:
  explicit ImageMessages(const InputOptions& options)
      : wanted_{.shape = shape_of(options), .classes = options.classes},
        queue_(
            options, feed::message_bytes(wanted_.shape),
            [this](std::string_view message, const std::string& name) {
              feed::parse_message(message, wanted_, name);
            },
            [this](feed::ReceivedMessage message, ReceivedBatch& batch) {
              take(std::move(message), batch);
            }) {}

  /// The producers decide which batch comes next.
  void skip(int64_t /*batches*/) override {}

  std::optional<HostBatch> next() override {
    const ReceivedBatch* batch = queue_.next();
    if (batch == nullptr) return std::nullopt;
    return HostBatch{batch->pixels, batch->labels.data(), wanted_.shape.batch};
  }

  void stop() override { queue_.stop(); }
  std::vector<feed::QueueUse> queues() const override { return {queue_.use()}; }

 private:
  void take(feed::ReceivedMessage message, ReceivedBatch& batch) const {
    const feed::BatchView view = feed::view_of(message.bytes, wanted_.shape);
    batch.labels.resize(static_cast<size_t>(wanted_.shape.batch));
    std::memcpy(batch.labels.data(), view.labels, batch.labels.size() * sizeof(int64_t));
    batch.pixels = view.pixels;
    // Last: it releases the message that the slot held before, whose pixels nobody reads any more.
    batch.message = std::move(message);
  }

  feed::WantedBatch wanted_;
  MessageQueue<ReceivedBatch> queue_;
};

/// Messages with the tensors of a network from a file.
class TensorMessages final : public Input {
 public:
  explicit TensorMessages(const InputOptions& options)
      : options_(options),
        wanted_(wanted_tensors(options)),
        queue_(
            options, feed::message_bytes(wanted_),
            [this](std::string_view message, const std::string& name) {
              feed::check_tensors(message, wanted_, name);
            },
            [this](const feed::ReceivedMessage& message, Batch& batch) {
              batch = batch_of(feed::tensors_of(message.bytes));
            }) {}

  /// The producers decide which batch comes next.
  void skip(int64_t /*batches*/) override {}
  const Batch& next() override { return *queue_.next(); }
  std::vector<feed::QueueUse> queues() const override { return {queue_.use()}; }

 private:
  Batch batch_of(std::string_view values) const {
    std::vector<at::Tensor> tensors;
    for (const Description& described : options_.described) {
      const at::Tensor tensor = empty_batch(described, options_.batch);
      const auto bytes = static_cast<size_t>(described.bytes_per_sample());
      for (int64_t index = 0; index < options_.batch; ++index) {
        place_sample(described, values.substr(0, bytes), index, tensor);
        values.remove_prefix(bytes);
      }
      tensors.push_back(tensor);
    }
    return batch_of_tensors(std::move(tensors), options_);
  }

  InputOptions options_;
  feed::WantedTensors wanted_;
  MessageQueue<Batch> queue_;
};

}  // namespace

feed::WantedTensors wanted_tensors(const InputOptions& options) {
  feed::WantedTensors wanted{.batch = options.batch};
  for (const Description& described : options.described) {
    wanted.bytes_per_sample.push_back(described.bytes_per_sample());
  }
  return wanted;
}

std::unique_ptr<Input> create_zmq_input(const InputOptions& options) {
  if (!options.described.empty()) return std::make_unique<TensorMessages>(options);
  return std::make_unique<StagedInput>(options, feed::scaling_of_noise(),
                                       std::make_unique<ImageMessages>(options));
}

}  // namespace lockstep::inputs
