#pragma once

#include <span>
#include <string>

#include "lockstep/comm/communicator.h"

namespace lockstep::comm {

constexpr int kTagLimit = 1 << 20;

/// Checks that one rank can make of a call's arguments without asking the others. All throw ConfigError,
/// which names the values and the communicator.
class ArgumentChecks {
 public:
  /// `where`: "rank 1 of 4 over gloo".
  ArgumentChecks(int rank, int size, Capabilities capabilities, std::string where);

  void check(const Collective& collective) const;
  void check(const Message& message) const;
  void check_buffer(const char* call, const Buffer& buffer) const;
  void check_split(std::span<const int> ranks) const;

 private:
  [[noreturn]] void refuse(const char* call, const std::string& why, const std::string& advice = "") const;
  void check_alike(const char* call, const Buffer& input, const Buffer& output) const;
  void check_part_of_whole(const Collective& collective) const;
  void check_exchange(const Collective& collective) const;

  int rank_;
  int size_;
  Capabilities capabilities_;
  std::string where_;
};

}  // namespace lockstep::comm
