#include "lockstep/comm/staging/staged_transport.h"

#include <deque>
#include <mutex>
#include <utility>

#include "lockstep/comm/staging/staged_messages.h"
#include "lockstep/comm/staging/staging_pipeline.h"

namespace lockstep::comm {
namespace {

bool on_device(const Buffer& buffer) {
  return buffer.device == DeviceKind::kCuda;
}

class StagedTransport final : public Transport {
 public:
  StagedTransport(std::shared_ptr<Transport> host, std::shared_ptr<CopyEngine> engine, size_t piece_bytes)
      : host_(std::move(host)),
        engine_(std::move(engine)),
        piece_bytes_(piece_bytes),
        pipeline_(engine_, piece_bytes),
        messages_(*host_, engine_) {}

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  std::string backend() const override { return host_->backend(); }
  Capabilities capabilities() const override {
    Capabilities capabilities = host_->capabilities();
    capabilities.cuda_buffers = true;
    return capabilities;
  }

  void issuing(const Collective& collective) override {
    if (!on_device(collective.input)) return;
    Marks marks{engine_->mark_stream(collective.input.stream)};
    if (collective.output.stream != collective.input.stream) {
      marks.push_back(engine_->mark_stream(collective.output.stream));
    }
    // Marked here, on the caller's thread: by the time run() comes, the streams may hold later work.
    const std::lock_guard lock(mutex_);
    issued_.push_back(std::move(marks));
  }

  void run(const Collective& collective, Deadline deadline) override {
    if (!on_device(collective.input)) return host_->run(collective, deadline);
    Marks marks;
    {
      // Collectives are carried out in the order in which they were issued.
      const std::lock_guard lock(mutex_);
      marks = std::move(issued_.front());
      issued_.pop_front();
    }
    pipeline_.run(tables_of(collective), marks, [&](const Buffer& input, const Buffer& output) {
      Collective piece = collective;
      piece.input = input;
      piece.output = output;
      host_->run(piece, deadline);
    });
  }

  std::shared_ptr<Transport> split(std::span<const int> ranks, Deadline deadline) override {
    std::shared_ptr<Transport> part = host_->split(ranks, deadline);
    if (!part) return nullptr;
    return make_staged_transport(std::move(part), engine_, piece_bytes_);
  }

  std::shared_ptr<CopyEngine> copy_engine() const override { return engine_; }

  std::shared_ptr<Operation> start(const Message& message, Deadline deadline) override {
    return on_device(message.buffer) ? messages_.start(message, deadline) : host_->start(message, deadline);
  }

  bool messages_idle() override { return messages_.idle() && host_->messages_idle(); }

  void abort(const Failure& why) noexcept override {
    // Staged messages first, which otherwise would report the host message's failure.
    messages_.fail(why);
    host_->abort(why);
  }

  void close() noexcept override {
    // In this order: the threads of messages_ use the host transport.
    messages_.stop();
    host_->close();
  }

  double helper_cpu_s() const override { return host_->helper_cpu_s() + messages_.cpu_s(); }

 private:
  using Marks = std::vector<CopyEngine::MarkPtr>;

  /// The collective as tables, with a row per part.
  StagedTables tables_of(const Collective& collective) const {
    const CollectiveTraits traits = collective.traits();
    const auto includes_me = [&](CollectiveTraits::Ranks ranks) {
      return ranks == CollectiveTraits::Ranks::kAll ||
             (ranks == CollectiveTraits::Ranks::kRoot) == (rank() == collective.root);
    };
    const size_t input_rows = traits.input_parts ? size_t(size()) : 1;
    return {.input = collective.input,
            .output = collective.output,
            .input_rows = input_rows,
            .output_rows = traits.output_parts ? size_t(size()) : 1,
            .columns = collective.input.count / input_rows,
            .in_place = traits.in_place,
            .reads_input = includes_me(traits.readers),
            .wants_output = includes_me(traits.writers)};
  }

  const std::shared_ptr<Transport> host_;
  const std::shared_ptr<CopyEngine> engine_;
  const size_t piece_bytes_;
  StagingPipeline pipeline_;
  StagedMessages messages_;
  std::mutex mutex_;
  std::deque<Marks> issued_;
};

}  // namespace

std::shared_ptr<Transport> make_staged_transport(std::shared_ptr<Transport> host,
                                                 std::shared_ptr<CopyEngine> engine, size_t piece_bytes) {
  return std::make_shared<StagedTransport>(std::move(host), std::move(engine), piece_bytes);
}

}  // namespace lockstep::comm
