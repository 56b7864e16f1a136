#include "lockstep/comm/thread/hub.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"

namespace lockstep::comm {

Mailbox::Mailbox(int size) : left_(size_t(size)) {}

void Mailbox::deliver(const Letter& sent, const Letter& awaited) {
  const size_t bytes = sent.buffer.bytes();
  if (bytes != awaited.buffer.bytes()) {
    const Failure failure{{fmt::format("rank {} sent {} bytes with tag {}, rank {} expected {} bytes",
                                       *sent.from, bytes, sent.tag, awaited.to, awaited.buffer.bytes()),
                           "sender and receiver must agree on the size of a message"},
                          Failure::Kind::kComm};
    sent.operation->fail(failure);
    awaited.operation->fail(failure);
    return;
  }
  if (bytes > 0) std::memcpy(awaited.buffer.data, sent.buffer.data, bytes);
  awaited.operation->complete(*sent.from);
  sent.operation->complete();
}

std::optional<Failure> Mailbox::refusal(const Letter& letter) const {
  if (failure_) return failure_;
  const auto gone = [&](int rank) {
    return Failure{{fmt::format("rank {} has left", rank)}, Failure::Kind::kPeerLost};
  };
  if (left_[size_t(letter.to)]) return gone(letter.to);
  if (letter.from && left_[size_t(*letter.from)]) return gone(*letter.from);
  // This rank itself is one of those that have not left.
  if (!letter.from && std::count(left_.begin(), left_.end(), false) <= 1) {
    return Failure{{"all other ranks have left"}, Failure::Kind::kPeerLost};
  }
  return std::nullopt;
}

std::shared_ptr<Operation> Mailbox::post(int rank, const Message& message) {
  const bool sends = message.kind == Message::Kind::kSend;
  Letter letter{.from = rank,
                .to = message.peer,
                .tag = message.tag,
                .buffer = message.buffer,
                .operation = std::make_shared<Operation>(info_of(message))};
  if (!sends) {
    letter.to = rank;
    letter.from.reset();
    if (message.kind == Message::Kind::kReceive) letter.from = message.peer;
  }
  // Matched and entered under one lock, or two ends could miss each other.
  std::unique_lock lock(mutex_);
  if (const auto why = refusal(letter)) {
    lock.unlock();
    letter.operation->fail(*why);
    return letter.operation;
  }
  std::list<Letter>& own_side = sends ? sent_ : awaited_;
  std::list<Letter>& other_side = sends ? awaited_ : sent_;
  // The oldest match, so that messages keep their order per (peer, tag).
  const auto match = std::find_if(other_side.begin(), other_side.end(), [&](const Letter& other) {
    return other.to == letter.to && other.tag == letter.tag &&
           (!other.from || !letter.from || *other.from == *letter.from);
  });
  if (match == other_side.end()) {
    own_side.push_back(letter);
    return letter.operation;
  }
  const Letter other = std::move(*match);
  other_side.erase(match);
  lock.unlock();
  sends ? deliver(letter, other) : deliver(other, letter);
  return letter.operation;
}

bool Mailbox::idle(int rank) {
  std::lock_guard lock(mutex_);
  return std::none_of(sent_.begin(), sent_.end(), [&](const Letter& sent) { return *sent.from == rank; }) &&
         std::none_of(awaited_.begin(), awaited_.end(),
                      [&](const Letter& awaited) { return awaited.to == rank; });
}

void Mailbox::fail(const Failure& why) {
  std::list<Letter> letters;
  {
    std::lock_guard lock(mutex_);
    if (!failure_) failure_ = why;
    letters.splice(letters.end(), sent_);
    letters.splice(letters.end(), awaited_);
  }
  // Outside the lock: failing an operation calls its callback.
  for (const Letter& letter : letters) letter.operation->fail(why);
}

void Mailbox::leave(int rank) {
  // Collected under the lock, failed without it.
  std::list<std::pair<Letter, Failure>> refused;
  {
    std::lock_guard lock(mutex_);
    left_[size_t(rank)] = true;
    for (std::list<Letter>* letters : {&sent_, &awaited_}) {
      for (auto letter = letters->begin(); letter != letters->end();) {
        const auto why = refusal(*letter);
        if (why) refused.emplace_back(*letter, *why);
        letter = why ? letters->erase(letter) : std::next(letter);
      }
    }
  }
  for (const auto& [letter, why] : refused) letter.operation->fail(why);
}

Hub::Hub(int size)
    : size_(size),
      arrived_(size_t(size)),
      left_(size_t(size)),
      contributions_(size_t(size)),
      mailbox_(size) {}

std::vector<int> Hub::missing() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size_; ++rank) {
    if (!arrived_[size_t(rank)]) ranks.push_back(rank);
  }
  return ranks;
}

void Hub::raise_if_failed() const {
  if (failure_) failure_->raise();
}

void Hub::meet(int rank, Deadline deadline) {
  std::unique_lock lock(mutex_);
  raise_if_failed();
  arrived_[size_t(rank)] = true;
  if (++arrived_count_ == size_) {
    // The last rank opens the next meeting; the others recognize the end of theirs by the number.
    arrived_count_ = 0;
    arrived_.assign(size_t(size_), false);
    ++meetings_;
    changed_.notify_all();
    return;
  }
  // Waits for this number to change, not for a flag, which the next meeting would reset.
  const uint64_t meeting = meetings_;
  while (meetings_ == meeting) {
    raise_if_failed();
    // A rank that left before it arrived never will.
    for (const int absent : missing()) {
      if (left_[size_t(absent)]) {
        throw PeerLostError(fmt::format("rank {} has left", absent));
      }
    }
    if (changed_.wait_until(lock, deadline) == std::cv_status::timeout && meetings_ == meeting) {
      raise_if_failed();
      throw TimeoutError(fmt::format("rank{} {} did not arrive in time", missing().size() == 1 ? "" : "s",
                                     fmt::join(missing(), ", ")),
                         "check that every rank takes the same steps");
    }
  }
}

void Hub::meet_with(int rank, const Contribution& mine, Deadline deadline) {
  // Without the lock: each rank writes its own place, and reads the others' after the meeting.
  contributions_[size_t(rank)] = mine;
  meet(rank, deadline);
  // Every rank compares itself with rank 0, so at least one of two that differ notices.
  const Contribution& first = contributions_[0];
  const Collective& own = mine.collective;
  const Collective& other = first.collective;
  if (std::string_view(mine.call) != first.call || own.input.count != other.input.count ||
      own.output.count != other.output.count || own.input.dtype != other.input.dtype || own.op != other.op ||
      own.root != other.root) {
    throw CommError(
        fmt::format("rank {} called {} with {} x {} (operation {}, root {}), rank 0 called {} with {} x {} "
                    "(operation {}, root {})",
                    rank, mine.call, own.input.count, to_string(own.input.dtype), int(own.op), own.root,
                    first.call, other.input.count, to_string(other.input.dtype), int(other.op), other.root),
        "every rank must issue the same collectives in the same order");
  }
}

void Hub::fail(const Failure& why) {
  {
    std::lock_guard lock(mutex_);
    if (failure_) return;  // the first failure is the cause, later ones are consequences
    failure_ = why;
    changed_.notify_all();
  }
  // Without the lock: callbacks of failed messages may come back here.
  mailbox_.fail(why);
}

void Hub::leave(int rank) {
  {
    std::lock_guard lock(mutex_);
    left_[size_t(rank)] = true;
    changed_.notify_all();
  }
  mailbox_.leave(rank);
}

}  // namespace lockstep::comm
