#include <algorithm>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include "lockstep/base/secret.h"
#include "lockstep/feed/message.h"
#include "lockstep/feed/receiver.h"
#include "lockstep/inputs/sources.h"
#include "lockstep/inputs/staged.h"

namespace lockstep::inputs {
namespace {

/// A batch in the memory of the message that brought it, except its labels, which are copied for alignment.
struct ReceivedBatch {
  feed::ReceivedMessage message;
  const uint8_t* pixels = nullptr;
  std::vector<int64_t> labels;
};

/// A thread that takes messages into a ring.
class Messages final : public HostSource {
 public:
  explicit Messages(const InputOptions& options)
      : wanted_{.shape = shape_of(options), .classes = options.classes},
        receiver_(
            {.address = feed::address_of_rank(options.address, options.rank),
             .timeout_s = options.timeout_s,
             .message_bytes = feed::message_bytes(wanted_.shape),
             .token = secret_of_user(),
             .check = [this](std::string_view message,
                             const std::string& name) { feed::parse_message(message, wanted_, name); }}),
        ring_(queue_of(options, "received", std::max(1, options.prefetch), 1)) {}

  ~Messages() override {
    Messages::stop();
    if (thread_.joinable()) thread_.join();
  }

  void skip(int64_t /*batches*/) override {}

  std::optional<HostBatch> next() override {
    if (!thread_.joinable()) thread_ = std::thread([this] { receive(); });
    const ReceivedBatch* batch = ring_.next();
    if (batch == nullptr) return std::nullopt;
    return HostBatch{batch->pixels, batch->labels.data(), wanted_.shape.batch};
  }

  void stop() override {
    ring_.close();
    receiver_.stop();
  }

  std::vector<feed::QueueUse> queues() const override {
    feed::QueueUse use = ring_.use();
    const feed::Refused refused = receiver_.refused();
    use.refused = refused.count;
    use.first_refused = refused.first;
    return {use};
  }

 private:
  void receive() {
    name_this_thread("ls-receiver");
    try {
      while (auto place = ring_.claim()) {
        // Room is claimed first: while the queue is full no message is taken, and producers wait.
        std::optional<feed::ReceivedMessage> message = receiver_.next();
        if (!message) return;
        place->begin_s = now_s();
        take(std::move(*message), *place->slot);
        ring_.publish(*place);
      }
    } catch (...) {
      ring_.fail(std::current_exception());
    }
  }

  void take(feed::ReceivedMessage message, ReceivedBatch& batch) const {
    const feed::BatchView view = feed::view_of(message.bytes, wanted_.shape);
    batch.labels.resize(static_cast<size_t>(wanted_.shape.batch));
    std::memcpy(batch.labels.data(), view.labels, batch.labels.size() * sizeof(int64_t));
    batch.pixels = view.pixels;
    // Last: it releases the message that the slot held before, whose pixels nobody reads any more.
    batch.message = std::move(message);
  }

  feed::WantedBatch wanted_;
  feed::Receiver receiver_;
  feed::OrderedRing<ReceivedBatch> ring_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Input> create_zmq_input(const InputOptions& options) {
  if (!options.described.empty()) return create_tensor_messages(options);
  return std::make_unique<StagedInput>(options, feed::scaling_of_noise(),
                                       std::make_unique<Messages>(options));
}

}  // namespace lockstep::inputs
