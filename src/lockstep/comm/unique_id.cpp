#include "lockstep/comm/unique_id.h"

#include <exception>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

// What rank 0 tells the others begins with one of these.
constexpr char kId = 'i';
constexpr char kSharedDevice = 's';
constexpr char kFailed = 'f';

/// Why these ranks cannot join, if two of them have one device.
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
  const std::string told_key = prefix + "/id";
  if (rank == 0) {
    try {
      const std::optional<std::string> refusal = shared_device(store, prefix, size, timeout);
      store.set(told_key, refusal ? kSharedDevice + *refusal : kId + make_id());
    } catch (const std::exception& error) {
      store.set(told_key, kFailed + std::string(error.what()));
      throw;
    }
  }
  const std::string told = store.get(told_key, timeout);
  std::string text = told.substr(1);
  if (told.front() == kSharedDevice) {
    throw ConfigError(
        fmt::format("{}, and NCCL wants one for every rank", text),
        "start at most as many ranks on a host as it has GPUs; gloo and mpi let several ranks share a GPU");
  }
  if (told.front() == kFailed) throw CommError("rank 0 could not begin: " + text);
  return text;
}

}  // namespace lockstep::comm
