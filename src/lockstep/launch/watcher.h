#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "lockstep/base/clock.h"
#include "lockstep/launch/lost_rank.h"
#include "lockstep/launch/progress.h"
#include "lockstep/launch/signals.h"
#include "lockstep/launch/watch_message.h"

namespace lockstep::launch {

/// One rank's end of the watch (protocol: watch_message.h): a thread that sends heartbeats to the coordinator
/// and receives its verdict. It sleeps between its five heartbeats a second.
class Watcher {
 public:
  struct Options {
    int rank = 0;
    /// The rank that runs the coordinator: 0, or kParent.
    int coordinator = 0;
    std::string job_id;
    std::string token;
    std::string host;
    int port = 0;
    std::chrono::duration<double> timeout{kDefaultTimeout_s};
    /// Outlives the watcher.
    const Progress* progress = nullptr;
    /// Called from the watcher's thread, each at most once: another rank, or the coordinator, is lost; the
    /// user ended the job.
    std::function<void(const LostRank&)> on_lost;
    std::function<void(int signal)> on_leave;
  };

  /// Joins. Throws TimeoutError or CommError if the coordinator does not answer or turns it away.
  explicit Watcher(Options options);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  /// Tells the coordinator that this rank cannot go on, and waits for the verdict: the loss that caused all
  /// others, possibly this one. Empty if none comes in time.
  std::optional<LostRank> report(const LostRank& own, std::chrono::duration<double> patience);

  /// Says that this rank is done, and waits for the answer, a second at most.
  void goodbye();

  /// Tells the coordinator that the user ends the job by this signal, and waits until it has told all ranks,
  /// a second at most.
  void tell_to_leave(int signal);

  /// Waits until the coordinator's process has ended. From any thread, even after the watch is over.
  void wait_coordinator_ended(std::chrono::duration<double> patience) const;

  /// Waits for a verdict; empty if none comes in time.
  std::optional<LostRank> wait_lost(std::chrono::duration<double> patience);

 private:
  void run();
  /// False when the watch is over.
  bool handle(const json& message);
  void lose(const LostRank& lost);
  LostRank about_coordinator() const;
  void send_beat();

  const Options options_;
  Channel channel_;
  WakeUp wake_;
  std::string coordinator_host_;
  int64_t coordinator_pid_ = 0;
  Progress::Snapshot coordinator_progress_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<json> to_send_;
  std::optional<LostRank> lost_;
  bool over_ = false;
  bool leaving_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace lockstep::launch
