#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/comm/store.h"
#include "lockstep/launch/channel.h"
#include "lockstep/launch/lost_rank.h"
#include "lockstep/launch/progress.h"
#include "lockstep/launch/reception.h"
#include "lockstep/launch/signals.h"

namespace lockstep::launch {

/// Where the server of a job listens.
struct Address {
  std::string host;
  int port = 0;
  /// The job's token; empty if there is none.
  std::string token = {};
};

/// A rank's end of its one connection to the job's server (protocol: channel.h), which is the store of the
/// job as well. A thread sends heartbeats and receives answers and the verdict; it sleeps between its five
/// heartbeats a second. Thread-safe: several threads may wait for keys of the store, which does not keep
/// others from using it. Once the job is over or the server gone, calls of the store throw PeerLostError.
class JobLink final : public comm::Store {
 public:
  struct Options {
    /// The token is the address's.
    JobKey job;
    int rank = 0;
    /// The process of the server: rank 0, or kParent.
    int server = 0;
    Address at;
    /// Time to connect.
    std::chrono::duration<double> join_timeout{kDefaultJoinTimeout_s};
    /// Silence after which the server counts as lost. set() and add() wait as long for the answer.
    std::chrono::duration<double> timeout{kDefaultTimeout_s};
    /// Outlives the link.
    const Progress* progress = nullptr;
    /// Called from the link's thread, each at most once: another rank, or the server, is lost; the user ended
    /// the job.
    std::function<void(const LostRank&)> on_lost = {};
    std::function<void(int signal)> on_leave = {};
  };

  /// Throws as enter() (reception.h).
  explicit JobLink(Options options);
  ~JobLink() override;
  JobLink(const JobLink&) = delete;
  JobLink& operator=(const JobLink&) = delete;

  /// Waits until all ranks have come. Throws PeerLostError with the reason if that will not be.
  void wait_met();
  bool met() const;

  void set(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key, std::chrono::duration<double> timeout) override;
  int64_t add(const std::string& key, int64_t amount) override;
  void report_stranger(const std::string& sentence) override;

  /// Reports that this rank cannot go on, and waits for the verdict: the loss that caused all others,
  /// possibly this one. Empty if none comes in time.
  std::optional<LostRank> report(const LostRank& own, std::chrono::duration<double> patience);

  /// Says that this rank is done, and waits for the answer, a second at most.
  void goodbye();

  /// Reports that the user ends the job by this signal, and waits until the server has announced it to all
  /// ranks, a second at most.
  void report_signal(int signal);

  /// Waits until the server's process has ended. From any thread, even after the job is over.
  void wait_server_ended(std::chrono::duration<double> patience) const;
  /// The same after a verdict, for one thread; returns whether the server said before that the user knows it.
  bool wait_reported(std::chrono::duration<double> patience);

  /// Waits for a verdict; empty if none comes in time.
  std::optional<LostRank> wait_lost(std::chrono::duration<double> patience);

 private:
  /// A request to the store; returns the value of the answer.
  std::string call(const char* is, const std::string& key, const std::string& value,
                   std::chrono::duration<double> timeout);
  /// The error of a call that comes when the job is over. With the lock held.
  [[noreturn]] void throw_over() const;
  /// With the lock held.
  void post(std::string is, Json content);
  void run();
  /// False when the job is over.
  bool handle(const Message& message);
  void lose(const LostRank& lost);
  LostRank about_server() const;
  void send_beat();

  const Options options_;
  Channel channel_;
  WakeUp wake_;
  std::string server_host_;
  int64_t server_pid_ = 0;
  Progress::Snapshot rank_0_at_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  /// Messages of other threads: only the link's own touches the channel.
  std::vector<std::pair<std::string, Json>> to_send_;
  int64_t last_id_ = 0;
  /// By the id of the request; empty until the answer comes.
  std::map<int64_t, std::optional<std::string>> answers_;
  std::optional<LostRank> lost_;
  bool met_ = false;
  bool over_ = false;
  bool leaving_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace lockstep::launch
