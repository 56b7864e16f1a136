#include "lockstep/comm/thread/mailbox.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace lockstep::comm {

Mailbox::Mailbox(int size) : left_(size_t(size)) {}

void Mailbox::deliver(const Letter& sent, const Letter& awaited) {
  const size_t bytes = sent.buffer.bytes();
  if (bytes != awaited.buffer.bytes()) {
    const Failure failure{Failure::Kind::kComm,
                          fmt::format("rank {} sent {} bytes with tag {}, rank {} expected {} bytes",
                                      *sent.from, bytes, sent.tag, awaited.to, awaited.buffer.bytes()),
                          "sender and receiver must agree on the size of a message"};
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
    return Failure{Failure::Kind::kPeerLost, fmt::format("rank {} has left", rank), ""};
  };
  if (left_[size_t(letter.to)]) return gone(letter.to);
  if (letter.from && left_[size_t(*letter.from)]) return gone(*letter.from);
  if (!letter.from && std::count(left_.begin(), left_.end(), false) <= 1) {
    return Failure{Failure::Kind::kPeerLost, "all other ranks have left", ""};
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

}  // namespace lockstep::comm
