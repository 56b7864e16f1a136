#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "lockstep/comm/communicator.h"

namespace lockstep::strategies {

/// Determines the tensors that are ready on every rank, as Horovod's coordinator does. One negotiation:
///
///  1. All ranks all-reduce a vector by minimum: a byte for each tensor in the cache, 1 if it is ready on
///     this rank, and a last byte, 1 if this rank has no names that are not in the cache. Tensors whose
///     minimum is 1 are ready everywhere.
///  2. Only if the last byte is 0: every rank sends its new names to rank 0, and rank 0 broadcasts the names
///     that are now ready on all ranks. Every rank adds them to its cache in that order, so they have the
///     same number on all.
///
/// From the second step on all names are in the cache. One object per rank, for one thread.
class Negotiator {
 public:
  /// Waits for an operation, and throws its error.
  using Wait = std::function<void(comm::Work&)>;

  /// `names`: the tensors' names, the same on every rank, in any order. `group` belongs to the caller and
  /// must be used for nothing else; after an exception of `wait` it must be destroyed before this object.
  Negotiator(comm::Communicator& group, std::vector<std::string> names, Wait wait);

  /// Collective. `announced`: tensors that became ready on this rank since the last call. Returns the tensors
  /// that are now ready on every rank, each once, in the same order on all ranks; they may then be announced
  /// again. Throws CommError if a rank announces a name that another one does not have.
  std::vector<size_t> negotiate(const std::vector<size_t>& announced);

 private:
  void negotiate_names(const std::vector<size_t>& announced);
  void count_names(const std::string& names);
  void send_text(const std::string& text, int peer);
  std::string receive_text(int peer);
  std::string broadcast_text(std::string text);

  comm::Communicator& group_;
  std::vector<std::string> names_;
  Wait wait_;
  std::unordered_map<std::string, size_t> index_of_;
  /// The tensors in the cache by number, and the number of each tensor, or -1.
  std::vector<size_t> cache_;
  std::vector<int64_t> cached_as_;
  /// The vector of step 1.
  std::vector<uint8_t> bits_;
  std::vector<bool> ready_;
  /// On rank 0: names in the order of their first announcement, and the number of ranks that announced them.
  std::vector<std::string> pending_;
  std::unordered_map<std::string, int> ready_ranks_;
  /// Memory of the messages in flight.
  int64_t length_ = 0;
  std::string text_;
};

}  // namespace lockstep::strategies
