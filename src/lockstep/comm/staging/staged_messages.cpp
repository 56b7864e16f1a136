#include "lockstep/comm/staging/staged_messages.h"

#include <utility>

namespace lockstep::comm {
namespace {

using Lane = CopyEngine::Lane;

Buffer in_host_memory(const Buffer& buffer, std::byte* memory) {
  return {memory, buffer.count, buffer.dtype};
}

/// What became of `inner` becomes of `outer`.
void pass_on(Operation& inner, Operation& outer) noexcept {
  try {
    inner.test();
    outer.complete(inner.source());
  } catch (...) {
    outer.fail(Failure::from_current_exception());
  }
}

}  // namespace

StagedMessages::StagedMessages(Transport& host, std::shared_ptr<CopyEngine> engine)
    : host_(host), engine_(engine), memory_(std::move(engine)), sends_("ls-stage", [](const Failure&) {}) {}

StagedMessages::~StagedMessages() {
  stop();
}

std::shared_ptr<Operation> StagedMessages::keep(OperationInfo info) {
  auto message = std::make_shared<Operation>(info);
  const std::lock_guard lock(mutex_);
  std::erase_if(pending_, [](const auto& other) { return other->has_outcome(); });
  pending_.push_back(message);
  return message;
}

std::shared_ptr<Operation> StagedMessages::send(const Buffer& buffer, int peer, int tag, Deadline deadline) {
  const CopyEngine::MarkPtr ready = engine_->mark_stream(buffer.stream);
  auto memory = memory_.take(buffer.bytes());
  engine_->hold_lane(Lane::kOut, *ready);
  engine_->copy(Lane::kOut, memory.get(), buffer.bytes(), buffer.data, buffer.bytes(), buffer.bytes(), 1);
  auto copied = engine_->mark_lane(Lane::kOut);
  auto message = keep({"send", buffer.bytes(), peer, tag});
  const Buffer on_host = in_host_memory(buffer, memory.get());
  sends_.push(std::make_shared<Operation>(message->info()), [=, this, memory = std::move(memory)] {
    try {
      engine_->wait(*copied);
      const std::shared_ptr<Operation> inner = host_.send(on_host, peer, tag, deadline);
      inner->on_complete([inner, message, memory] { pass_on(*inner, *message); });
    } catch (...) {
      message->fail(Failure::from_current_exception());
    }
  });
  return message;
}

std::shared_ptr<Operation> StagedMessages::receive(const Buffer& buffer, int peer, int tag,
                                                   Deadline deadline) {
  return start_receive({"receive", buffer.bytes(), peer, tag}, buffer,
                       [&](const Buffer& on_host) { return host_.receive(on_host, peer, tag, deadline); });
}

std::shared_ptr<Operation> StagedMessages::receive_any(const Buffer& buffer, int tag, Deadline deadline) {
  return start_receive({"receive_any", buffer.bytes(), -1, tag}, buffer,
                       [&](const Buffer& on_host) { return host_.receive_any(on_host, tag, deadline); });
}

std::shared_ptr<Operation> StagedMessages::start_receive(OperationInfo info, const Buffer& buffer,
                                                         const Start& start) {
  // What the device still does with the old contents comes first.
  const CopyEngine::MarkPtr free = engine_->mark_stream(buffer.stream);
  auto memory = memory_.take(buffer.bytes());
  const std::shared_ptr<Operation> inner = start(in_host_memory(buffer, memory.get()));
  auto message = keep(info);
  auto copy_in = [=, engine = engine_] {
    try {
      inner->test();
      engine->hold_lane(Lane::kIn, *free);
      engine->copy(Lane::kIn, buffer.data, buffer.bytes(), memory.get(), buffer.bytes(), buffer.bytes(), 1);
      engine->wait(*engine->mark_lane(Lane::kIn));
      message->complete(inner->source());
    } catch (...) {
      message->fail(Failure::from_current_exception());
    }
  };
  // Not in the transport's own thread, which others wait for.
  inner->on_complete([waiters = waiters_, copy_in = std::move(copy_in)] { waiters->run(copy_in); });
  return message;
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
