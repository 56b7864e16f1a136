#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "lockstep/comm/communicator.h"

namespace lockstep::strategies {

/// Finds out which tensors are ready on every rank, as Horovod's coordinator does. Tensors are announced by
/// name: the ranks tell rank 0 which became ready, and it tells all of them which are ready everywhere. What
/// was negotiated once is in every rank's cache under the same number, and from then on takes part as one bit
/// of a bit vector of which all take the minimum; rank 0 is not asked unless some rank has a name that is not
/// in the cache. One object per rank; used by one thread.
class Negotiator {
 public:
  /// Waits for an operation, and throws what it throws.
  using Wait = std::function<void(comm::Work&)>;

  /// `names`: of the tensors; every rank has the same ones, in any order. The communicator is the caller's,
  /// is used for nothing else, and is to be destroyed before this when a wait was left by an exception.
  Negotiator(comm::Communicator& group, std::vector<std::string> names, Wait wait);

  /// Collective. `announced`: tensors that became ready on this rank since the last call. Returns those that
  /// now are ready on every rank, each once, in the same order on all ranks; they may be announced again.
  /// Throws CommError when a rank announces a name that another does not have.
  std::vector<size_t> negotiate(const std::vector<size_t>& announced);

 private:
  void tell_rank_0(const std::vector<size_t>& announced);
  void hear(const std::string& names);
  void send_text(const std::string& text, int peer);
  std::string receive_text(int peer);
  std::string broadcast_text(std::string text);

  comm::Communicator& group_;
  std::vector<std::string> names_;
  Wait wait_;
  std::unordered_map<std::string, size_t> index_of_;
  /// Tensors by their number in the cache, and the number of each tensor, or -1.
  std::vector<size_t> cache_;
  std::vector<int64_t> cached_as_;
  /// By number in the cache: 1 where this rank is ready; then 1 where it has no new names.
  std::vector<uint8_t> bits_;
  std::vector<bool> ready_;
  /// On rank 0: names in the order of their first announcement, and how many ranks are ready.
  std::vector<std::string> asked_;
  std::unordered_map<std::string, int> ready_ranks_;
  /// What is on its way.
  int64_t length_ = 0;
  std::string text_;
};

}  // namespace lockstep::strategies
