#include "lockstep/comm/unique_id.h"

#include <exception>

#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

// First byte of rank 0's message to the others: an id follows, or the reason why there is none.
constexpr char kId = 'i';
constexpr char kFailed = 'f';

}  // namespace

std::string share_unique_id(Store& store, const std::string& key, int rank,
                            const std::function<std::string()>& make_id,
                            std::chrono::duration<double> timeout) {
  if (rank == 0) {
    try {
      store.set(key, kId + make_id());
    } catch (const std::exception& error) {
      // Reported to the others, which would otherwise wait for the time-out.
      store.set(key, kFailed + std::string(error.what()));
      throw;
    }
  }
  const std::string answer = store.get(key, timeout);
  std::string text = answer.substr(1);
  if (answer.front() == kFailed) throw CommError("rank 0 could not make an NCCL id: " + text);
  return text;
}

}  // namespace lockstep::comm
