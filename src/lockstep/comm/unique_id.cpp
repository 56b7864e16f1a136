#include "lockstep/comm/unique_id.h"

#include <exception>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

// First byte of rank 0's message to the others: an id follows, or the reason why there is none.
constexpr char kId = 'i';
constexpr char kSharedDevice = 's';
constexpr char kFailed = 'f';

/// The reason to refuse these ranks, if two of them have one device.
std::optional<std::string> shared_device(Store& store, const std::string& prefix, int size,
                                         std::chrono::duration<double> timeout) {
  std::map<std::string, int> owners;
  for (int rank = 0; rank < size; ++rank) {
    const std::string device = store.get(fmt::format("{}/device/{}", prefix, rank), timeout);
    const auto [owner, is_new] = owners.emplace(device, rank);
    if (!is_new) return fmt::format("ranks {} and {} have the same GPU, {}", owner->second, rank, device);
  }
  return std::nullopt;
}

}  // namespace

std::string share_unique_id(Store& store, const std::string& prefix, int rank, int size,
                            const std::string& device, const std::function<std::string()>& make_id,
                            std::chrono::duration<double> timeout) {
  store.set(fmt::format("{}/device/{}", prefix, rank), device);
  const std::string answer_key = prefix + "/id";
  if (rank == 0) {
    try {
      const std::optional<std::string> refusal = shared_device(store, prefix, size, timeout);
      store.set(answer_key, refusal ? kSharedDevice + *refusal : kId + make_id());
    } catch (const std::exception& error) {
      // Reported to the others, which would otherwise wait for the time-out.
      store.set(answer_key, kFailed + std::string(error.what()));
      throw;
    }
  }
  const std::string answer = store.get(answer_key, timeout);
  std::string text = answer.substr(1);
  if (answer.front() == kSharedDevice) {
    throw ConfigError(
        fmt::format("{}, but NCCL needs one for every rank", text),
        "start at most as many ranks on a host as it has GPUs; gloo and mpi let several ranks share a GPU");
  }
  if (answer.front() == kFailed) throw CommError("rank 0 could not make an NCCL id: " + text);
  return text;
}

}  // namespace lockstep::comm
