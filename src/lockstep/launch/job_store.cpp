#include "lockstep/launch/job_store.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/hexadecimal.h"
#include "lockstep/base/secret.h"
#include "lockstep/comm/operation.h"
#include "lockstep/launch/reception.h"
#include "lockstep/launch/rendezvous.h"
#include "lockstep/launch/signals.h"

namespace lockstep::launch {
namespace {

using Seconds = std::chrono::duration<double>;

/// Leaves room for the key and for two digits a byte.
constexpr size_t kLongestValueBytes = Channel::kLongestMessageBytes / 2 - 4096;

/// Period in which those that say no hello are looked for.
constexpr int kLookAgain_ms = 200;

/// The least time from one attempt to connect to the next, and the most that one may take.
constexpr Seconds kBetweenAttempts{0.1};
constexpr Seconds kAttempt{2};

/// Tells the processes of one rank number apart.
const std::string& own_visit() {
  static const std::string visit = random_secret();
  return visit;
}

/// 0 for a text that is no number.
int64_t number_in(const std::string& text) {
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

/// A process's end. A connection serves one call at a time, and a waiting get() occupies it, so each call
/// takes one from a pool. One that failed is not returned to the pool.
class StoreClient final : public comm::Store {
 public:
  StoreClient(std::string host, int port, Introduction self, Seconds join_timeout, Seconds timeout)
      : host_(std::move(host)), port_(port), self_(std::move(self)), timeout_(timeout) {
    idle_.push_back(enter(host_, port_, self_, join_timeout).channel);
  }

  void set(const std::string& key, const std::string& value) override {
    if (value.size() > kLongestValueBytes) {
      throw Error(fmt::format("the store takes no value of {} bytes, as '{}' has", value.size(), key));
    }
    call({{"is", "set"}, {"key", key}, {"value", to_hexadecimal(value)}}, timeout_);
  }

  std::string get(const std::string& key, Seconds timeout) override {
    return from_hexadecimal(call({{"is", "get"}, {"key", key}}, timeout).at("value").get<std::string>());
  }

  int64_t add(const std::string& key, int64_t amount) override {
    return call({{"is", "add"}, {"key", key}, {"amount", amount}}, timeout_).at("value");
  }

 private:
  json call(const json& request, Seconds timeout) {
    const auto deadline = comm::deadline_after(timeout);
    Channel channel = take();
    channel.send(request);
    while (true) {
      channel.flush();
      const bool open = channel.receive();
      if (auto answer = channel.next()) {
        const std::lock_guard lock(mutex_);
        idle_.push_back(std::move(channel));
        return std::move(*answer);
      }
      if (!open) {
        throw PeerLostError(fmt::format("the store at {}:{} is gone", host_, port_),
                            "The process that hosts it has ended: look for its messages.");
      }
      if (Clock::now() >= deadline) {
        const bool waits = request.at("is") == "get";
        throw TimeoutError(fmt::format("{} '{}' in the store at {}:{} within {} s",
                                       waits ? "nobody set" : "there was no answer for",
                                       request.value("key", ""), host_, port_, timeout.count()),
                           "A rank may be missing or slow: look for its messages.");
      }
      pollfd wanted{channel.fd(), static_cast<short>(POLLIN | (channel.has_unsent() ? POLLOUT : 0)), 0};
      ::poll(&wanted, 1, milliseconds_until(deadline));
    }
  }

  Channel take() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        Channel channel = std::move(idle_.back());
        idle_.pop_back();
        return channel;
      }
    }
    // Without the lock: coming in takes round trips to the server.
    return enter(host_, port_, self_, timeout_).channel;
  }

  const std::string host_;
  const int port_;
  const Introduction self_;
  const Seconds timeout_;
  std::mutex mutex_;
  std::vector<Channel> idle_;
};

/// The store of rank 0, which hosts it.
class HostedStore final : public comm::Store {
 public:
  HostedStore(std::unique_ptr<StoreServer> server, std::unique_ptr<comm::Store> client)
      : server_(std::move(server)), client_(std::move(client)) {}

  void set(const std::string& key, const std::string& value) override { client_->set(key, value); }
  std::string get(const std::string& key, Seconds timeout) override { return client_->get(key, timeout); }
  int64_t add(const std::string& key, int64_t amount) override { return client_->add(key, amount); }

 private:
  const std::unique_ptr<StoreServer> server_;
  const std::unique_ptr<comm::Store> client_;
};

/// The store of a job that has several ranks. `rendezvous` must live until they have met.
JoinedStore find_store(Rendezvous& rendezvous, const RankEnvironment& environment, const Patience& patience,
                       StoreServer::OnStranger on_stranger = {}) {
  JobMembers job{environment.job_id, "", environment.world};
  if (rendezvous.hosts_store()) {
    const Address at = rendezvous.address(patience.limit);
    job.token = at.token;
    auto server = std::make_unique<StoreServer>(at.host, at.port, job, std::move(on_stranger));
    rendezvous.publish(server->port());
    const std::string host = is_loopback(at.host) ? at.host : kLoopback;
    auto client = connect_store(host, server->port(), job, environment.rank, patience.limit, patience.limit);
    return {std::make_shared<HostedStore>(std::move(server), std::move(client)), job.token};
  }
  std::shared_ptr<comm::Store> store =
      connect_patiently(environment, patience, [&](Seconds time) -> std::shared_ptr<comm::Store> {
        // Looked up every time: what is found at first may be an earlier command's.
        const Address at = rendezvous.address(time);
        job.token = at.token;
        return connect_store(at.host, at.port, job, environment.rank, std::min(time, kAttempt),
                             patience.limit);
      });
  return {std::move(store), job.token};
}

}  // namespace

class StoreServer::Impl {
 public:
  Impl(Listener listener, const JobMembers& job, OnStranger on_stranger)
      : visits_(static_cast<size_t>(job.world)),
        reception_(
            std::move(listener),
            {.service = kStoreService,
             .job_id = job.job_id,
             .token = job.token,
             .world = job.world,
             .admit = [this](int rank, const json& hello) { return admit(rank, hello); },
             .entered = {},
             .handle = [this](Reception::Guest& guest, const json& message) { handle(guest, message); },
             .ended =
                 [this](Reception::Guest& guest) {
                   std::erase_if(waiting_, [&](const auto& entry) { return entry.second == &guest; });
                 },
             .on_stranger = std::move(on_stranger)}) {
    // Signals belong to the session's own thread, or to the supervisor's.
    const BlockedSignals blocked;
    thread_ = std::thread([this] { run(); });
  }

  ~Impl() {
    stop_.wake();
    thread_.join();
  }

  int port() const { return reception_.port(); }

 private:
  void run() {
    std::vector<pollfd> wanted;
    while (!stop_.take()) {
      wanted = {{stop_.fd(), POLLIN, 0}};
      reception_.add_to(wanted);
      ::poll(wanted.data(), wanted.size(), reception_.expects_somebody() ? kLookAgain_ms : -1);
      reception_.serve(std::span(wanted).subspan(1));
      reception_.drop_the_silent();
    }
  }

  json admit(int rank, const json& hello) {
    std::string& visit = visits_[static_cast<size_t>(rank)];
    if (visit.empty()) visit = hello.at("visit");
    return hello.at("visit") == json(visit) ? json::object() : json();
  }

  void handle(Reception::Guest& guest, const json& message) {
    const std::string is = message.at("is");
    const std::string key = message.at("key");
    if (is == "set") {
      change(key, message.at("value").get<std::string>());
      guest.channel.send({{"is", "set"}});
    } else if (is == "add") {
      const auto found = values_.find(key);
      const int64_t before = found == values_.end() ? 0 : number_in(from_hexadecimal(found->second));
      const int64_t sum = before + message.at("amount").get<int64_t>();
      change(key, to_hexadecimal(std::to_string(sum)));
      guest.channel.send({{"is", "sum"}, {"value", sum}});
    } else if (is == "get") {
      const auto found = values_.find(key);
      if (found != values_.end()) {
        guest.channel.send({{"is", "got"}, {"value", found->second}});
      } else {
        waiting_.emplace(key, &guest);
      }
    }
  }

  void change(const std::string& key, const std::string& value) {
    values_[key] = value;
    const auto [begin, end] = waiting_.equal_range(key);
    for (auto entry = begin; entry != end; ++entry) {
      entry->second->channel.send({{"is", "got"}, {"value", value}});
    }
    waiting_.erase(begin, end);
  }

  /// [rank]: the process that has come as this rank; empty before.
  std::vector<std::string> visits_;
  /// In hexadecimal digits.
  std::map<std::string, std::string> values_;
  /// Those that wait for a key.
  std::multimap<std::string, Reception::Guest*> waiting_;
  Reception reception_;
  WakeUp stop_;
  std::thread thread_;
};

StoreServer::StoreServer(const std::string& host, int port, const JobMembers& job, OnStranger on_stranger)
    : impl_(std::make_unique<Impl>(listen_tcp(host, port), job, std::move(on_stranger))) {}
StoreServer::~StoreServer() = default;

int StoreServer::port() const {
  return impl_->port();
}

std::unique_ptr<comm::Store> connect_store(const std::string& host, int port, const JobMembers& job, int rank,
                                           Seconds join_timeout, Seconds timeout) {
  return std::make_unique<StoreClient>(host, port,
                                       Introduction{.service = kStoreService,
                                                    .job_id = job.job_id,
                                                    .token = job.token,
                                                    .rank = rank,
                                                    .more = {{"visit", own_visit()}}},
                                       join_timeout, timeout);
}

JoinedStore join_job_store(const RankEnvironment& environment, const Patience& patience,
                           StoreServer::OnStranger on_stranger) {
  if (environment.world == 1) return {std::make_shared<comm::HashStore>(), environment.token};
  Rendezvous rendezvous(environment);
  JoinedStore joined = find_store(rendezvous, environment, patience, std::move(on_stranger));
  joined.store = meet(std::move(joined.store), environment, patience);
  return joined;
}

std::string decline_job_store(const RankEnvironment& environment, const LostRank& why, Seconds limit) {
  Rendezvous rendezvous(environment);
  return decline(*find_store(rendezvous, environment, {.limit = limit}).store, environment, why, limit);
}

std::shared_ptr<comm::Store> connect_patiently(
    const RankEnvironment& environment, const Patience& patience,
    const std::function<std::shared_ptr<comm::Store>(Seconds)>& connect) {
  std::shared_ptr<comm::Store> store;
  std::string last;
  std::string advice;
  const auto attempt = [&](Seconds time) {
    const auto earliest = comm::deadline_after(std::min(time, kBetweenAttempts));
    try {
      store = connect(time);
      return true;
    } catch (const TurnedAway&) {
      throw;
    } catch (const CommError& error) {
      last = error.what();
      advice = error.advice();
    }
    std::this_thread::sleep_until(earliest);
    return false;
  };
  const char* host = environment.uses_agent_store() ? "the launcher's store" : "rank 0";
  if (wait_patiently(patience, environment.speaks_for_host(), attempt, [&] { return host; })) return store;
  throw TimeoutError(fmt::format("rank {} waited for {} for {:g} s: {}", environment.rank, host,
                                 patience.limit.count(), last),
                     advice);
}

}  // namespace lockstep::launch
