#include "lockstep/launch/slurm_lists.h"

#include <charconv>
#include <regex>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::launch {
namespace {

constexpr size_t kMostNodes = 1 << 20;

[[noreturn]] void refuse(const std::string& variable, const std::string& text) {
  throw ConfigError(
      fmt::format("{}='{}' cannot be understood", variable, text),
      "srun sets it; or set RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT.");
}

}  // namespace

std::vector<int> expand_slurm_tasks(const std::string& variable, const std::string& text) {
  static const std::regex kWhole(R"(\d{1,6}(\(x\d{1,6}\))?(,\d{1,6}(\(x\d{1,6}\))?)*)");
  static const std::regex kEntry(R"((\d+)(\(x(\d+)\))?)");
  if (!std::regex_match(text, kWhole)) refuse(variable, text);
  std::vector<int> tasks;
  for (auto entry = std::sregex_iterator(text.begin(), text.end(), kEntry); entry != std::sregex_iterator();
       ++entry) {
    const size_t nodes = (*entry)[3].matched ? std::stoul((*entry)[3]) : 1;
    if (tasks.size() + nodes > kMostNodes) refuse(variable, text);
    tasks.insert(tasks.end(), nodes, std::stoi((*entry)[1]));
  }
  return tasks;
}

std::string first_slurm_host(const std::string& variable, const std::string& text) {
  // A name may have several ranges: rack[1-2]node[01-16]. The first value of each makes the first host.
  static const std::regex kFirst(R"(((?:[A-Za-z0-9_.-]+|\[\d+[-,\d]*\])+)(,.*)?)");
  static const std::regex kRange(R"(\[(\d+)[-,\d]*\])");
  std::smatch match;
  if (!std::regex_match(text, match, kFirst)) refuse(variable, text);
  return std::regex_replace(match[1].str(), kRange, "$1");
}

}  // namespace lockstep::launch
