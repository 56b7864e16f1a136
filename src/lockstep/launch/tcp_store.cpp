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
#include "lockstep/launch/rendezvous.h"
#include "lockstep/launch/tcp_socket.h"

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

class PooledTcpStore final : public TcpStore {
 public:
  PooledTcpStore(Client first, std::string prefix, Seconds timeout)
      : address_(fmt::format("{}:{}", first->getHost(), first->getPort())),
        port_(first->getPort()),
        prefix_(std::move(prefix)),
        timeout_(timeout),
        first_(first) {
    idle_.push_back(std::move(first));
  }

  int port() const override { return port_; }

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
  const int port_;
  const std::string prefix_;
  const Seconds timeout_;
  /// Owns the server, if this process hosts it.
  const Client first_;
  std::mutex mutex_;
  std::vector<Client> idle_;
};

/// Silences c10d's warnings with stack traces, which are thrown here as errors, unless the user has set a
/// level.
void quiet_c10d() {
  if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = 3;
}

Client connect(const std::string& host, int port, bool is_server, Seconds timeout) {
  quiet_c10d();
  c10d::TCPStoreOptions options;
  options.isServer = is_server;
  options.waitWorkers = false;
  options.timeout = to_milliseconds(timeout);
  options.port = static_cast<uint16_t>(port);
  if (is_server) {
    // Bound here for clear errors, and so that a job on one host cannot be reached from others.
    Listener listener = listen_tcp(host, port);
    options.port = static_cast<uint16_t>(listener.port);
    options.masterListenFd = listener.fd.release();
  }
  try {
    return c10::make_intrusive<c10d::TCPStore>(host, options);
  } catch (const c10::Error& error) {
    throw TimeoutError(fmt::format("no store at {}:{}: {}", host, port, first_line(error)),
                       "Check that rank 0 is running, and MASTER_ADDR and MASTER_PORT.");
  }
}

/// The least time of an attempt to connect: one may fail at once, as where a name is not known yet.
constexpr Seconds kBetweenAttempts{0.5};

/// Connects to a store that another process hosts, once it is there.
Client connect_patiently(Rendezvous& rendezvous, const RankEnvironment& environment,
                         const Patience& patience) {
  Client client;
  std::optional<TimeoutError> last;
  const auto attempt = [&](Seconds time) {
    const auto end = comm::deadline_after(time);
    const auto earliest = comm::deadline_after(std::min(time, kBetweenAttempts));
    try {
      const Address at = rendezvous.address(time);
      client = connect(at.host, at.port, false, Seconds(end - Clock::now()));
      return true;
    } catch (const TimeoutError& error) {
      last = error;
      std::this_thread::sleep_until(earliest);
      return false;
    }
  };
  const bool speaks = environment.rank == 1 || environment.local_rank == 0;
  const char* host = environment.store_hosted_for_us ? "the launcher's store" : "rank 0";
  if (wait_patiently(patience, speaks, attempt, [&] { return host; })) return client;
  throw TimeoutError(fmt::format("rank {} waited for {} for {:g} s: {}", environment.rank, host,
                                 patience.limit.count(), last ? last->what() : ""),
                     last ? last->advice() : "");
}

/// The store of a job that has several ranks. `rendezvous` must live until they have met.
std::shared_ptr<TcpStore> find_store(Rendezvous& rendezvous, const RankEnvironment& environment,
                                     const Patience& patience) {
  Client client;
  if (rendezvous.hosts_store()) {
    const Address at = rendezvous.address(patience.limit);
    client = connect(at.host, at.port, true, patience.limit);
    rendezvous.publish(client->getPort());
  } else {
    client = connect_patiently(rendezvous, environment, patience);
  }
  return std::make_shared<PooledTcpStore>(std::move(client), fmt::format("lockstep/{}/", environment.job_id),
                                          patience.limit);
}

}  // namespace

std::unique_ptr<TcpStore> make_tcp_store(const std::string& host, int port, bool is_server, Seconds timeout) {
  return std::make_unique<PooledTcpStore>(connect(host, port, is_server, timeout), "lockstep/", timeout);
}

std::shared_ptr<comm::Store> join_tcp_store(const RankEnvironment& environment, const Patience& patience) {
  if (environment.world == 1) return std::make_shared<comm::HashStore>();
  Rendezvous rendezvous(environment);
  return meet(find_store(rendezvous, environment, patience), environment, patience);
}

std::string decline_tcp_store(const RankEnvironment& environment, const LostRank& why, Seconds limit) {
  Rendezvous rendezvous(environment);
  return decline(*find_store(rendezvous, environment, {.limit = limit}), environment, why, limit);
}

}  // namespace lockstep::launch
