#pragma once

#include <condition_variable>
#include <map>
#include <mutex>

#include "lockstep/comm/store.h"

namespace lockstep::comm {

/// A Store in memory, for ranks that are threads of one process. Counters are kept as decimal text.
class HashStore final : public Store {
 public:
  void set(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key, std::chrono::duration<double> timeout) override;
  int64_t add(const std::string& key, int64_t amount) override;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

}  // namespace lockstep::comm
