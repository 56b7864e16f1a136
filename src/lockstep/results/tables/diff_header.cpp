#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/results/record/launches.h"
#include "lockstep/results/tables/diff.h"
#include "lockstep/results/tables/notices.h"

namespace lockstep::results {
namespace {

constexpr const char* kNothing = "-";

std::string bucket_sizes(const RunRecord& record) {
  std::set<double> sizes;
  for (const Run& run : record.runs) {
    if (communicates(run)) sizes.insert(run.bucket_mb);
  }
  if (sizes.empty()) return fmt::format("{}", record.bucket_size_mb);
  return fmt::format("{}", fmt::join(sizes, ", "));
}

/// A property of the job's machines; values that several share appear once.
template <typename Text>
std::string of_machines(const RunRecord& record, Text text) {
  std::vector<std::string> found;
  for (const Machine& machine : record.machines) {
    std::string one = text(machine);
    if (!one.empty() && std::ranges::find(found, one) == found.end()) found.push_back(std::move(one));
  }
  return fmt::format("{}", fmt::join(found, ", "));
}

std::string count_or_nothing(int count) {
  return count > 0 ? fmt::format("{}", count) : "";
}

/// A property of the rows, each value once.
std::string of_runs(const RunRecord& record, std::string (*text)(const Run& run)) {
  std::vector<std::string> found;
  for (const Run& run : record.runs) {
    std::string one = text(run);
    if (!one.empty() && std::ranges::find(found, one) == found.end()) found.push_back(std::move(one));
  }
  return fmt::format("{}", fmt::join(found, ", "));
}

/// "2 x NVIDIA H200".
std::string rank_gpu_names(const RunRecord& record) {
  std::vector<std::pair<std::string, int>> counts;
  for (const topology::RankGpu& gpu : record.rank_gpus) {
    auto known = std::ranges::find(counts, gpu.name, &std::pair<std::string, int>::first);
    if (known == counts.end()) known = counts.insert(counts.end(), {gpu.name, 0});
    ++known->second;
  }
  std::vector<std::string> texts;
  for (const auto& [name, count] : counts) texts.push_back(fmt::format("{} x {}", count, name));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string sharing_text(const RunRecord& record) {
  if (record.rank_gpus.empty()) return "";
  return ranks_by_shared_gpu(record.rank_gpus).empty() ? "no" : "yes";
}

std::string launches_text(const RunRecord& record) {
  std::set<int> counts;
  for (const Run& run : record.runs) counts.insert(launches(run));
  return fmt::format("{}", fmt::join(counts, ", "));
}

/// The one entry that always differs and therefore has no mark.
constexpr const char* kStarted = "started";

/// Entries that decide how fast a GPU is, apart from the program.
constexpr std::array<std::string_view, 7> kOfDevice{
    "cuda_version", "device", "device settings", "GPUs of the ranks", "GPUs shared", "cuDNN", "GPU driver"};

/// Names and values. Entries that PyTorch's diff.py has come first, under its names and in its order.
std::vector<std::pair<std::string, std::string>> entries(const RunRecord& record) {
  return {
      {"bucket_size", bucket_sizes(record)},
      {"cuda_version", record.cuda_version.empty() ? "None" : record.cuda_version},
      {"distributed_backend", record.distributed_backend},
      {"pytorch_version", record.torch_version},
      {"written by", record.source},
      {"lockstep", record.lockstep_version},
      {"backend library", record.backend_detail},
      {"kernels", kernels_text(record)},
      {"device", of_runs(record, [](const Run& run) { return run.device; })},
      {"device settings", of_runs(record, [](const Run& run) { return run.device_settings; })},
      {"GPUs of the ranks", rank_gpu_names(record)},
      {"GPUs shared", sharing_text(record)},
      {"cuDNN", record.cudnn_version},
      {"host", of_machines(record, [](const Machine& machine) { return machine.host; })},
      {"processor", of_machines(record, [](const Machine& machine) { return machine.processor; })},
      {"cores", of_machines(record, [](const Machine& machine) { return fmt::format("{}", machine.cores); })},
      {"memory",
       of_machines(record, [](const Machine& machine) { return format_bytes(machine.memory_bytes); })},
      {"governor", of_machines(record, [](const Machine& machine) { return machine.governor; })},
      {"kernel", of_machines(record, [](const Machine& machine) { return machine.kernel; })},
      {"GPU", of_machines(record,
                          [](const Machine& machine) {
                            return machine.gpus.empty()
                                       ? ""
                                       : fmt::format("{} x {}", machine.gpus.size(), machine.gpus.front());
                          })},
      {"GPU driver", of_machines(record, [](const Machine& machine) { return machine.map.driver_version; })},
      {"GPU paths", of_machines(record,
                                [](const Machine& machine) {
                                  return path_counts(machine.map, static_cast<size_t>(machine.map.gpus()));
                                })},
      {"launched as", record.launch},
      {"pinned", record.binding},
      {"most ranks", count_or_nothing(record.ranks)},
      {"threads per rank", count_or_nothing(record.threads_per_rank)},
      {"allocator", record.allocator},
      {"launches", launches_text(record)},
      {kStarted, record.started_at},
      {"command", fmt::format("{}", fmt::join(record.command, " "))},
      {"INCOMPLETE", record.incomplete},
  };
}

}  // namespace

std::vector<HeaderEntry> compare_headers(const RunRecord& base, const RunRecord& test) {
  const auto of_base = entries(base);
  const auto of_test = entries(test);
  std::vector<HeaderEntry> header;
  for (size_t i = 0; i < of_base.size(); ++i) {
    const auto& [name, base_text] = of_base[i];
    const std::string& test_text = of_test[i].second;
    if (base_text.empty() && test_text.empty()) continue;
    const bool of_device = std::ranges::find(kOfDevice, name) != kOfDevice.end();
    header.push_back({name, base_text.empty() ? kNothing : base_text,
                      test_text.empty() ? kNothing : test_text, base_text != test_text && name != kStarted,
                      of_device});
  }
  std::stable_partition(header.begin(), header.end(), [](const HeaderEntry& entry) { return entry.differs; });
  return header;
}

}  // namespace lockstep::results
