#include <charconv>

#include "lockstep/base/secret.h"
#include "lockstep/launch/job_server.h"

namespace lockstep::launch {
namespace {

/// 0 for a text that is no number.
int64_t number_in(const std::string& text) {
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

bool ServedStore::handle(Reception::Guest& guest, const Message& message) {
  const std::string is = message.is();
  if (is != "set" && is != "get" && is != "add" && is != "drop") return false;
  const auto request = message.as<Entry>();
  const auto found = values_.find(request.key);
  const std::string value = found == values_.end() ? "" : found->second;
  if (is == "set") {
    change(request.key, request.value);
    guest.channel.send("got", Entry{.id = request.id, .key = "", .value = ""});
  } else if (is == "add") {
    const int64_t sum = number_in(from_hexadecimal(value)) + number_in(from_hexadecimal(request.value));
    const std::string digits = to_hexadecimal(std::to_string(sum));
    change(request.key, digits);
    guest.channel.send("got", Entry{.id = request.id, .key = "", .value = digits});
  } else if (is == "drop") {
    std::erase_if(waiting_, [&](const auto& entry) {
      return entry.second.guest == &guest && entry.second.id == request.id;
    });
  } else if (found != values_.end()) {
    guest.channel.send("got", Entry{.id = request.id, .key = "", .value = value});
  } else {
    waiting_.emplace(request.key, Waiting{&guest, request.id});
  }
  return true;
}

void ServedStore::forget(const Reception::Guest& guest) {
  std::erase_if(waiting_, [&](const auto& entry) { return entry.second.guest == &guest; });
}

void ServedStore::change(const std::string& key, const std::string& value) {
  values_[key] = value;
  const auto [begin, end] = waiting_.equal_range(key);
  for (auto entry = begin; entry != end; ++entry) {
    entry->second.guest->channel.send("got", Entry{.id = entry->second.id, .key = "", .value = value});
  }
  waiting_.erase(begin, end);
}

}  // namespace lockstep::launch
