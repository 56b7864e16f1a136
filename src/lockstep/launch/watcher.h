#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "lockstep/launch/lost_rank.h"
#include "lockstep/launch/progress.h"
#include "lockstep/launch/tcp_socket.h"

namespace lockstep::launch {

/// One rank's end of the watch: a thread that sends heartbeats to the coordinator and hears of lost ranks.
/// Asleep but for five heartbeats a second.
class Watcher {
 public:
  struct Options {
    int rank = 0;
    /// Who runs the coordinator: 0 or kParent.
    int coordinator = 0;
    std::string job_id;
    std::string host;
    int port = 0;
    std::chrono::duration<double> timeout{30};
    /// Outlives the watcher.
    const Progress* progress = nullptr;
    /// From the watcher's thread, each at most once: another rank, or the coordinator, is lost; the user
    /// ended the job.
    std::function<void(const LostRank&)> on_lost;
    std::function<void(int signal)> on_leave;
  };

  /// Joins. Throws TimeoutError or CommError when the coordinator does not let it in.
  explicit Watcher(Options options);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  /// Tells the coordinator that this rank cannot go on, and waits for the verdict: the loss that is the cause
  /// of it all, maybe this one. Nothing when none comes in time.
  std::optional<LostRank> report(const LostRank& own, std::chrono::duration<double> patience);

  /// Says that this rank is done, and waits until that has been understood, a second at most.
  void goodbye();

  /// Tells the coordinator that the user ends the job by this signal, and waits until it has told all ranks,
  /// a second at most.
  void tell_to_leave(int signal);

  /// Waits until the coordinator's process has ended. From any thread, also when the watch is over.
  void wait_coordinator_ended(std::chrono::duration<double> patience) const;

  /// Waits for a loss to be known.
  std::optional<LostRank> wait_lost(std::chrono::duration<double> patience);

 private:
  void join_watch();
  void run();
  /// False when the watch is over.
  bool handle(const nlohmann::json& message);
  void lose(const LostRank& lost);
  LostRank about_coordinator() const;
  void send_beat();
  void wake() const;

  const Options options_;
  Channel channel_;
  UniqueFd wake_;
  std::string coordinator_host_;
  int64_t coordinator_pid_ = 0;
  Progress::Snapshot coordinator_progress_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<nlohmann::json> to_send_;
  std::optional<LostRank> lost_;
  bool over_ = false;
  bool leaving_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace lockstep::launch
