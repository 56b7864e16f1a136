#pragma once

#include <span>
#include <string>

#include "lockstep/comm/communicator.h"
#include "lockstep/comm/types.h"

namespace lockstep::comm {

/// The checks of a call's arguments that one rank can make alone. All throw ConfigError, which names the
/// values and the communicator.
class ArgumentChecks {
 public:
  /// `where`: "rank 1 of 4 over gloo".
  ArgumentChecks(int rank, int size, Capabilities capabilities, std::string where);

  void buffer(const char* call, const Buffer& buffer) const;
  void root(const char* call, int root) const;
  void all_gather(const Buffer& input, const Buffer& output) const;
  void reduce_scatter(const Buffer& input, const Buffer& output) const;
  void all_to_all(const Buffer& input, const Buffer& output) const;
  /// To or from `peer`.
  void message(const char* call, const Buffer& buffer, int peer, int tag) const;
  void peer(const char* call, int peer) const;
  void receive_any() const;
  void tag(const char* call, int tag) const;
  void split(std::span<const int> ranks) const;

 private:
  void same_dtype(const char* call, const Buffer& input, const Buffer& output) const;

  int rank_;
  int size_;
  Capabilities capabilities_;
  std::string where_;
};

constexpr int kTagLimit = 1 << 20;

}  // namespace lockstep::comm
