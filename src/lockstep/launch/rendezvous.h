#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "lockstep/launch/rank_environment.h"

namespace lockstep::launch {

struct Address {
  std::string host;
  int port = 0;
};

/// Where the ranks of a job find their store, worked out from what the launcher tells. Ranks of one host that
/// were told no address meet through a file in a private folder of the user's under the temporary folder.
class Rendezvous {
 public:
  /// Throws ConfigError when ranks on several hosts cannot know the address.
  explicit Rendezvous(const RankEnvironment& environment);
  /// Removes what was published.
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  /// Whether this process is to host the store.
  bool hosts_store() const;

  /// Host: where to listen, port 0 for any. Others: where to connect, once it is known; throws TimeoutError.
  Address address(std::chrono::duration<double> timeout);

  /// Host: the port that the store listens on. Does nothing where the others know it already.
  void publish(int port);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::launch
