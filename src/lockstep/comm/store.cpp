#include "lockstep/comm/store.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"
#include "lockstep/comm/operation.h"

namespace lockstep::comm {

void HashStore::set(const std::string& key, const std::string& value) {
  std::lock_guard lock(mutex_);
  values_[key] = value;
  // All: several ranks may wait for this key, and others for other keys.
  changed_.notify_all();
}

std::string HashStore::get(const std::string& key, std::chrono::duration<double> timeout) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_until(lock, deadline_after(timeout), [&] { return values_.contains(key); })) {
    throw TimeoutError(fmt::format("'{}' was not set within {}", key, format_duration(timeout.count())),
                       "check that every rank was started");
  }
  return values_[key];
}

int64_t HashStore::add(const std::string& key, int64_t amount) {
  std::lock_guard lock(mutex_);
  std::string& value = values_[key];
  const int64_t sum = (value.empty() ? 0 : std::stoll(value)) + amount;
  value = std::to_string(sum);
  changed_.notify_all();
  return sum;
}

}  // namespace lockstep::comm
