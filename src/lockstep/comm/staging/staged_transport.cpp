#include <algorithm>
#include <bit>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "lockstep/comm/progress_queue.h"
#include "lockstep/comm/staging/staging_pipeline.h"
#include "lockstep/comm/transport.h"

namespace lockstep::comm {
namespace {

using Lane = CopyEngine::Lane;

/// The same message with `memory` for its buffer.
Message in_host_memory(const Message& message, std::byte* memory) {
  Message on_host = message;
  on_host.buffer = {memory, message.buffer.count, message.buffer.dtype};
  return on_host;
}

/// Completes `outer` with the outcome of `inner`.
void pass_on(Operation& inner, Operation& outer) noexcept {
  try {
    inner.test();
    outer.complete(inner.source());
  } catch (...) {
    outer.fail(Failure::from_current_exception());
  }
}

/// A pool of an engine's host memory. Thread-safe; memory on loan may outlive the pool.
class HostMemoryPool {
 public:
  explicit HostMemoryPool(std::shared_ptr<CopyEngine> engine) { shelves_->engine = std::move(engine); }

  /// At least `bytes`; returns to the pool when its last owner releases it.
  std::shared_ptr<std::byte> take(size_t bytes) {
    constexpr size_t kSmallest = 4096;
    const size_t size = std::bit_ceil(std::max(bytes, kSmallest));
    std::shared_ptr<std::byte> memory;
    {
      const std::lock_guard lock(shelves_->mutex);
      if (auto& shelf = shelves_->free[size]; !shelf.empty()) {
        memory = std::move(shelf.back());
        shelf.pop_back();
      }
    }
    if (!memory) memory = shelves_->engine->host_memory(size);
    // The deleter puts the memory back on its shelf; it keeps the shelves alive after the pool.
    std::byte* const address = memory.get();
    return {address, [shelves = shelves_, memory = std::move(memory), size](std::byte*) mutable {
              const std::lock_guard lock(shelves->mutex);
              shelves->free[size].push_back(std::move(memory));
            }};
  }

 private:
  struct Shelves {
    std::shared_ptr<CopyEngine> engine;
    std::mutex mutex;
    /// By size, a power of two.
    std::map<size_t, std::vector<std::shared_ptr<std::byte>>> free;
  };

  const std::shared_ptr<Shelves> shelves_ = std::make_shared<Shelves>();
};

/// Messages from and to device memory over a transport of host memory. Each message passes through host
/// memory as a whole. Thread-safe; the transport must live until stop().
///
///   send      device --out lane--> pool memory --sends_--> host_.start --callback--> outcome
///   receive   host_.start --callback--> waiters_: pool memory --in lane--> device, outcome
class StagedMessages {
 public:
  StagedMessages(Transport& host, std::shared_ptr<CopyEngine> engine)
      : host_(host), engine_(engine), memory_(std::move(engine)), sends_("ls-stage", [](const Failure&) {}) {}
  ~StagedMessages() { stop(); }

  std::shared_ptr<Operation> start(const Message& message, Deadline deadline) {
    return message.kind == Message::Kind::kSend ? send(message, deadline) : receive(message, deadline);
  }

  bool idle() { return pending_.empty(); }
  /// Fails every message in flight.
  void fail(const Failure& why) noexcept {
    for (const auto& message : pending_.take()) message->fail(why);
  }
  /// Ends the threads. Messages that the transport still carries must have an outcome by then.
  void stop() noexcept {
    sends_.stop();
    waiters_->stop();
  }

  double cpu_s() const { return sends_.cpu_s() + waiters_->cpu_s(); }

 private:
  /// The operation that the caller of start() gets.
  std::shared_ptr<Operation> keep(const Message& message) {
    auto operation = std::make_shared<Operation>(info_of(message));
    pending_.add(operation);
    return operation;
  }

  std::shared_ptr<Operation> send(const Message& message, Deadline deadline) {
    const Buffer& buffer = message.buffer;
    const CopyEngine::MarkPtr ready = engine_->mark_stream(buffer.stream);
    auto memory = memory_.take(buffer.bytes());
    engine_->hold_lane(Lane::kOut, *ready);
    engine_->copy(Lane::kOut, memory.get(), buffer.bytes(), buffer.data, buffer.bytes(), buffer.bytes(), 1);
    auto copied = engine_->mark_lane(Lane::kOut);
    auto outer = keep(message);
    const Message on_host = in_host_memory(message, memory.get());
    sends_.push(std::make_shared<Operation>(outer->info()), [=, this, memory = std::move(memory)] {
      try {
        engine_->wait(*copied);
        const std::shared_ptr<Operation> inner = host_.start(on_host, deadline);
        inner->on_complete([inner, outer, memory] { pass_on(*inner, *outer); });
      } catch (...) {
        outer->fail(Failure::from_current_exception());
      }
    });
    return outer;
  }

  std::shared_ptr<Operation> receive(const Message& message, Deadline deadline) {
    // Marked now: the device may still use the old contents, and the copy in has to wait for that.
    const CopyEngine::MarkPtr free = engine_->mark_stream(message.buffer.stream);
    auto memory = memory_.take(message.buffer.bytes());
    const std::shared_ptr<Operation> inner = host_.start(in_host_memory(message, memory.get()), deadline);
    auto outer = keep(message);
    auto copy_in = [=, buffer = message.buffer, engine = engine_] {
      try {
        inner->test();
        engine->hold_lane(Lane::kIn, *free);
        engine->copy(Lane::kIn, buffer.data, buffer.bytes(), memory.get(), buffer.bytes(), buffer.bytes(), 1);
        engine->wait(*engine->mark_lane(Lane::kIn));
        outer->complete(inner->source());
      } catch (...) {
        outer->fail(Failure::from_current_exception());
      }
    };
    // On a thread of its own: the transport's threads must not block, since other messages wait for them.
    inner->on_complete([waiters = waiters_, copy_in = std::move(copy_in)] { waiters->run(copy_in); });
    return outer;
  }

  Transport& host_;
  const std::shared_ptr<CopyEngine> engine_;
  HostMemoryPool memory_;
  /// Sends leave in the order of their calls: each waits there for its copy, and for nothing else.
  ProgressQueue sends_;
  const std::shared_ptr<WaiterThreads> waiters_ = std::make_shared<WaiterThreads>();
  PendingMessages<> pending_;
};

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
    const CollectiveTraits& traits = collective.traits();
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
