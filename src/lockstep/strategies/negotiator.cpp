#include "lockstep/strategies/negotiator.h"

#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::strategies {
namespace {

constexpr int kLengthTag = 0;
constexpr int kNamesTag = 1;

/// Names do not contain line breaks.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

comm::Buffer buffer_of_text(std::string& text) {
  return comm::host_buffer(reinterpret_cast<uint8_t*>(text.data()), text.size());
}

}  // namespace

Negotiator::Negotiator(comm::Communicator& group, std::vector<std::string> names, Wait wait)
    : group_(group),
      names_(std::move(names)),
      wait_(std::move(wait)),
      cached_as_(names_.size(), -1),
      ready_(names_.size(), false) {
  for (size_t i = 0; i < names_.size(); ++i) index_of_[names_[i]] = i;
}

std::vector<size_t> Negotiator::negotiate(const std::vector<size_t>& announced) {
  std::vector<size_t> unknown;
  for (const size_t tensor : announced) {
    ready_[tensor] = true;
    if (cached_as_[tensor] < 0) unknown.push_back(tensor);
  }
  const size_t cached = cache_.size();
  bits_.resize(cached + 1);
  for (size_t i = 0; i < cached; ++i) bits_[i] = ready_[cache_[i]] ? 1 : 0;
  bits_[cached] = unknown.empty() ? 1 : 0;
  wait_(*group_.all_reduce(comm::host_buffer(bits_.data(), bits_.size()), comm::ReduceOp::kMin));

  std::vector<size_t> everywhere;
  for (size_t i = 0; i < cached; ++i) {
    if (bits_[i] == 1) everywhere.push_back(cache_[i]);
  }
  if (bits_[cached] == 0) {
    negotiate_names(unknown);
    for (size_t i = cached; i < cache_.size(); ++i) everywhere.push_back(cache_[i]);
  }
  for (const size_t tensor : everywhere) ready_[tensor] = false;
  return everywhere;
}

void Negotiator::negotiate_names(const std::vector<size_t>& announced) {
  std::string names;
  for (const size_t tensor : announced) names += names_[tensor] + "\n";
  std::string everywhere;
  if (group_.rank() == 0) {
    count_names(names);
    for (int peer = 1; peer < group_.size(); ++peer) count_names(receive_text(peer));
    std::erase_if(pending_, [&](const std::string& name) {
      if (ready_ranks_[name] < group_.size()) return false;
      everywhere += name + "\n";
      ready_ranks_.erase(name);
      return true;
    });
  } else {
    send_text(names, 0);
  }
  for (const std::string& name : lines_of(broadcast_text(everywhere))) {
    const auto known = index_of_.find(name);
    if (known == index_of_.end()) {
      throw CommError(fmt::format("rank {} has no tensor named '{}'", group_.rank(), name),
                      "All ranks must train the same network.");
    }
    cached_as_[known->second] = static_cast<int64_t>(cache_.size());
    cache_.push_back(known->second);
  }
}

void Negotiator::count_names(const std::string& names) {
  for (const std::string& name : lines_of(names)) {
    if (!index_of_.contains(name)) {
      throw CommError(fmt::format("a tensor named '{}' was announced, which rank 0 does not have", name),
                      "All ranks must train the same network.");
    }
    if (++ready_ranks_[name] == 1) pending_.push_back(name);
  }
}

void Negotiator::send_text(const std::string& text, int peer) {
  text_ = text;
  length_ = static_cast<int64_t>(text_.size());
  wait_(*group_.send(comm::host_buffer(&length_, 1), peer, kLengthTag));
  if (length_ > 0) wait_(*group_.send(buffer_of_text(text_), peer, kNamesTag));
}

std::string Negotiator::receive_text(int peer) {
  wait_(*group_.receive(comm::host_buffer(&length_, 1), peer, kLengthTag));
  text_.resize(static_cast<size_t>(length_));
  if (length_ > 0) wait_(*group_.receive(buffer_of_text(text_), peer, kNamesTag));
  return text_;
}

std::string Negotiator::broadcast_text(std::string text) {
  text_ = std::move(text);
  length_ = static_cast<int64_t>(text_.size());
  wait_(*group_.broadcast(comm::host_buffer(&length_, 1), 0));
  text_.resize(static_cast<size_t>(length_));
  if (length_ > 0) wait_(*group_.broadcast(buffer_of_text(text_), 0));
  return text_;
}

}  // namespace lockstep::strategies
