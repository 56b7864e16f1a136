#include "lockstep/comm/staging/staged_messages.h"

#include <algorithm>
#include <bit>
#include <utility>

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

}  // namespace

HostMemoryPool::HostMemoryPool(std::shared_ptr<CopyEngine> engine) : shelves_(std::make_shared<Shelves>()) {
  shelves_->engine = std::move(engine);
}

std::shared_ptr<std::byte> HostMemoryPool::take(size_t bytes) {
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

StagedMessages::StagedMessages(Transport& host, std::shared_ptr<CopyEngine> engine)
    : host_(host), engine_(engine), memory_(std::move(engine)), sends_("ls-stage", [](const Failure&) {}) {}

StagedMessages::~StagedMessages() {
  stop();
}

std::shared_ptr<Operation> StagedMessages::keep(const Message& message) {
  auto operation = std::make_shared<Operation>(info_of(message));
  const std::lock_guard lock(mutex_);
  std::erase_if(pending_, [](const auto& other) { return other->has_outcome(); });
  pending_.push_back(operation);
  return operation;
}

std::shared_ptr<Operation> StagedMessages::start(const Message& message, Deadline deadline) {
  return message.kind == Message::Kind::kSend ? send(message, deadline) : receive(message, deadline);
}

std::shared_ptr<Operation> StagedMessages::send(const Message& message, Deadline deadline) {
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

std::shared_ptr<Operation> StagedMessages::receive(const Message& message, Deadline deadline) {
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

bool StagedMessages::idle() {
  const std::lock_guard lock(mutex_);
  std::erase_if(pending_, [](const auto& message) { return message->has_outcome(); });
  return pending_.empty();
}

void StagedMessages::fail(const Failure& why) noexcept {
  std::vector<std::shared_ptr<Operation>> pending;
  {
    const std::lock_guard lock(mutex_);
    pending.swap(pending_);
  }
  for (const auto& message : pending) message->fail(why);
}

void StagedMessages::stop() noexcept {
  sends_.stop();
  waiters_->stop();
}

double StagedMessages::cpu_s() const {
  return sends_.cpu_s() + waiters_->cpu_s();
}

}  // namespace lockstep::comm
