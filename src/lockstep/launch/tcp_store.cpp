#include "lockstep/launch/tcp_store.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/comm/operation.h"

namespace lockstep::launch {
namespace {

using std::chrono::milliseconds;
using Seconds = std::chrono::duration<double>;
using Client = c10::intrusive_ptr<c10d::TCPStore>;

/// Clamped, since c10d passes it to poll() as an int.
milliseconds to_milliseconds(Seconds time) {
  constexpr Seconds kLongest = std::chrono::days(20);
  return std::max(milliseconds(1), std::chrono::ceil<milliseconds>(std::min(time, kLongest)));
}

/// The first line only: c10's messages continue with a stack trace.
std::string first_line(const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  return text.substr(0, text.find('\n'));
}

class AgentStore final : public comm::Store {
 public:
  AgentStore(Client first, std::string prefix, Seconds timeout)
      : address_(fmt::format("{}:{}", first->getHost(), first->getPort())),
        prefix_(std::move(prefix)),
        timeout_(timeout),
        first_(first) {
    idle_.push_back(std::move(first));
  }

  void set(const std::string& key, const std::string& value) override {
    with_client(key, timeout_, [&](c10d::TCPStore& client) {
      client.set(prefix_ + key, std::vector<uint8_t>(value.begin(), value.end()));
      return 0;
    });
  }

  std::string get(const std::string& key, Seconds timeout) override {
    return with_client(key, timeout, [&](c10d::TCPStore& client) {
      client.wait({prefix_ + key}, to_milliseconds(timeout));
      const std::vector<uint8_t> value = client.get(prefix_ + key);
      return std::string(value.begin(), value.end());
    });
  }

  int64_t add(const std::string& key, int64_t amount) override {
    return with_client(key, timeout_,
                       [&](c10d::TCPStore& client) { return client.add(prefix_ + key, amount); });
  }

 private:
  /// A connection serves one call at a time, and a waiting get() occupies it, so each call takes one from the
  /// pool. One that failed is not returned to the pool.
  template <typename Call>
  std::invoke_result_t<const Call&, c10d::TCPStore&> with_client(const std::string& key, Seconds timeout,
                                                                 const Call& call) {
    try {
      Client client = take();
      auto result = call(*client);
      const std::lock_guard lock(mutex_);
      idle_.push_back(std::move(client));
      return result;
    } catch (const c10::DistStoreError& error) {
      throw TimeoutError(
          fmt::format("nobody set '{}' in the store at {} within {} s", key, address_, timeout.count()),
          "A rank may be missing or slow: look for its messages.");
    } catch (const c10::Error& error) {
      throw PeerLostError(fmt::format("the store at {} is gone: {}", address_, first_line(error)),
                          "The process that hosts it has ended: look for its messages.");
    }
  }

  Client take() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        Client client = std::move(idle_.back());
        idle_.pop_back();
        return client;
      }
    }
    // Without the lock: connecting takes a round trip to the server.
    return c10::dynamic_intrusive_pointer_cast<c10d::TCPStore>(first_->clone());
  }

  const std::string address_;
  const std::string prefix_;
  const Seconds timeout_;
  const Client first_;
  std::mutex mutex_;
  std::vector<Client> idle_;
};

/// Silences c10d's warnings with stack traces, which are thrown here as errors, unless the user has set a
/// level.
void quiet_c10d() {
  if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = 3;
}

/// The agent's, for the ranks of a job.
std::shared_ptr<comm::Store> agent_store(const RankEnvironment& environment, const Patience& patience) {
  return connect_patiently(environment, patience, [&](Seconds time) -> std::shared_ptr<comm::Store> {
    return connect_agent_store(environment.master_addr, environment.master_port, environment.job_id, time,
                               patience.limit);
  });
}

}  // namespace

std::unique_ptr<comm::Store> connect_agent_store(const std::string& host, int port, const std::string& job_id,
                                                 Seconds join_timeout, Seconds timeout) {
  quiet_c10d();
  c10d::TCPStoreOptions options;
  options.waitWorkers = false;
  options.timeout = to_milliseconds(join_timeout);
  options.port = static_cast<uint16_t>(port);
  try {
    return std::make_unique<AgentStore>(c10::make_intrusive<c10d::TCPStore>(host, options),
                                        fmt::format("lockstep/{}/", job_id), timeout);
  } catch (const c10::Error& error) {
    throw TimeoutError(fmt::format("no store at {}:{}: {}", host, port, first_line(error)),
                       "Check that rank 0 is running, and MASTER_ADDR and MASTER_PORT.");
  }
}

JoinedStore join_store(const RankEnvironment& environment, const Patience& patience,
                       StoreServer::OnStranger on_stranger) {
  if (!environment.uses_agent_store()) return join_job_store(environment, patience, std::move(on_stranger));
  return {meet(agent_store(environment, patience), environment, patience), environment.token};
}

std::string decline_store(const RankEnvironment& environment, const LostRank& why, Seconds limit) {
  if (!environment.uses_agent_store()) return decline_job_store(environment, why, limit);
  return decline(*agent_store(environment, {.limit = limit}), environment, why, limit);
}

}  // namespace lockstep::launch
