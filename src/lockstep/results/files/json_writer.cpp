#include "lockstep/results/files/json_writer.h"

#include <cmath>
#include <numeric>
#include <type_traits>
#include <variant>

#include <nlohmann/json.hpp>

#include "lockstep/results/files/json_findings.h"
#include "lockstep/results/files/json_gpus.h"
#include "lockstep/results/files/json_layers.h"
#include "lockstep/results/files/json_state.h"
#include "lockstep/results/files/system_json.h"
#include "lockstep/results/record/pytorch_rows.h"
#include "lockstep/results/record/summarize.h"

namespace lockstep::results {
namespace {

/// 0 stands for "not known" in the record.
Json known(int64_t value) {
  return value == 0 ? Json(nullptr) : Json(value);
}
Json known(const std::string& value) {
  return value.empty() ? Json(nullptr) : Json(value);
}

/// 25 and not 25.0: what PyTorch's benchmark writes, and diff.py shows it as it is written.
Json whole_if_possible(double value) {
  return std::trunc(value) == value && std::abs(value) < 1e15 ? Json(static_cast<int64_t>(value))
                                                              : number(value);
}

Json to_json(const std::vector<Warning>& warnings) {
  Json list = Json::array();
  for (const Warning& warning : warnings) {
    list.push_back({{"text", warning.text}, {"advice", warning.advice}, {"loud", warning.loud}});
  }
  return list;
}

Json to_json(const std::vector<std::vector<double>>& samples) {
  Json list = Json::array();
  for (const std::vector<double>& step : samples) {
    Json ranks = Json::array();
    for (const double sample : step) ranks.push_back(number(sample));
    list.push_back(std::move(ranks));
  }
  return list;
}

Json to_json(const Machine& machine) {
  return {
      {"host", machine.host},
      {"os", known(machine.os)},
      {"kernel", known(machine.kernel)},
      {"processor", known(machine.processor)},
      {"packages", known(machine.packages)},
      {"numa_nodes", known(machine.numa_nodes)},
      {"cores", machine.cores},
      {"host_cores", machine.host_cores},
      {"hardware_threads", machine.hardware_threads},
      {"host_hardware_threads", machine.host_hardware_threads},
      {"cpu_quota", number(machine.cpu_quota)},
      {"memory_bytes", machine.memory_bytes},
      {"host_memory_bytes", machine.host_memory_bytes},
      {"available_memory_bytes", machine.available_memory_bytes},
      {"swap_used_bytes", machine.swap_used_bytes},
      {"load_average", number(machine.load_average)},
      {"governor", known(machine.governor)},
      {"max_frequency_mhz", number(machine.max_frequency_mhz)},
      {"virtual_machine", machine.virtual_machine},
      {"transparent_hugepages", known(machine.transparent_hugepages)},
      {"gpus", machine.gpus},
      {"topology", device_map_json(machine.map)},
  };
}

Json to_json(const std::optional<Baseline>& baseline) {
  if (!baseline) return nullptr;
  return {{"strategy", baseline->strategy},
          {"ranks", baseline->ranks},
          {"images_per_s", number(baseline->images_per_s)}};
}

Json setting_json(const Setting& setting, const Setup& setup) {
  return std::visit(
      [&](auto member) -> Json {
        const auto& value = setup.*member;
        using T = std::remove_cvref_t<decltype(value)>;
        if (setting.nullable && value == T()) return nullptr;
        if constexpr (std::is_same_v<T, uint64_t>) {
          return static_cast<int64_t>(value);
        } else if constexpr (std::is_same_v<T, double>) {
          return number(value);
        } else {
          return value;
        }
      },
      setting.member);
}

Json to_json(const Run& run) {
  Json json;
  for (const Setting& setting : kSettings) json[setting.key] = setting_json(setting, run);
  json.update({
      {"device_settings", known(run.device_settings)},
      {"warmup_steps", run.warmup_steps},
      {"warmup_choice", known(run.warmup_choice)},
      {"stopped", known(run.stopped)},
      {"coupled", run.coupled},
      {"pooled", run.pooled},
      {"elapsed_s", number(run.elapsed_s)},
      {"step_s",
       {{"p50", number(run.step_s.p50)},
        {"p75", number(run.step_s.p75)},
        {"p90", number(run.step_s.p90)},
        {"p95", number(run.step_s.p95)},
        {"p99", number(run.step_s.p99)}}},
      {"step_interval_s", interval_json(run.step_interval_s)},
      {"images_per_s", number(run.images_per_s)},
      {"images_per_s_interval", interval_json(run.rate_interval)},
      {"speedup", number(run.speedup)},
      {"efficiency", number(run.efficiency)},
      {"baseline", to_json(run.baseline)},
      {"factors", factors_json(run.factors)},
      {"breakdown", breakdown_json(run.breakdown)},
      {"resources", resources_json(run.resources)},
      {"gpu_use", gpu_use_json(run.gpu_use)},
      {"memory", memory_json(run.memory)},
      {"tuning", tuning_json(run.tuning)},
      {"replica_checks", replica_checks_json(run.replica_checks)},
      {"own_measures", own_measures_json(run.own_measures)},
      {"input_queues", input_queues_json(run.input_queues)},
      {"limit_images_per_s", number(run.limit_images_per_s)},
      {"of_limit", number(run.of_limit())},
      {"layers", layers_json(run.layers)},
      {"loss", {{"first", number(run.loss_first)}, {"last", number(run.loss_last)}}},
      {"warnings", to_json(run.warnings)},
      {"launch_steps", run.launch_steps},
      {"launch_warmup_steps", run.launch_warmup_steps},
      {"samples", to_json(run.samples)},
      {"warmup_samples", to_json(run.warmup_samples)},
  });
  return json;
}

Json pytorch_result(const Run* run) {
  std::vector<int> ranks(run == nullptr ? 1 : static_cast<size_t>(run->ranks));
  std::iota(ranks.begin(), ranks.end(), 0);
  Json measurements = Json::array();
  if (run != nullptr) {
    for (const double step_s : representative_steps(*run)) {
      // diff.py takes percentiles of the list: a null in it would end it.
      if (std::isfinite(step_s)) measurements.push_back(step_s);
    }
  }
  return {{"ranks", std::move(ranks)}, {"measurements", std::move(measurements)}};
}

Json benchmark_results(const RunRecord& record) {
  Json all = Json::array();
  for (const PytorchRows& rows : pytorch_rows(record)) {
    // diff.py skips the first result, whatever it is: without a measured one its place is held.
    Json results = Json::array({pytorch_result(rows.no_ddp)});
    for (const Run* run : rows.ddp) {
      Json result = pytorch_result(run);
      if (!result["measurements"].empty()) results.push_back(std::move(result));
    }
    all.push_back({{"model", rows.model}, {"batch_size", rows.batch_size}, {"result", std::move(results)}});
  }
  return all;
}

Json ours(const RunRecord& record) {
  Json runs = Json::array();
  for (const Run& run : record.runs) runs.push_back(to_json(run));
  Json file{
      {"schema_version", kSchemaVersion},
      {"source", record.source},
      {"version", record.lockstep_version},
      {"started_at", known(record.started_at)},
      {"launches_started_at", record.launches_started_at},
      {"incomplete", known(record.incomplete)},
      {"command", record.command},
      {"launch", known(record.launch)},
      {"binding", known(record.binding)},
      {"ranks", known(record.ranks)},
      {"threads_per_rank", known(record.threads_per_rank)},
      {"rank_cpus", record.rank_cpus},
      {"rank_gpus", rank_gpus_json(record.rank_gpus)},
      {"gpus_shared", !ranks_by_shared_gpu(record.rank_gpus).empty()},
      {"cudnn_version", known(record.cudnn_version)},
      {"allocator", known(record.allocator)},
      {"backend_detail", known(record.backend_detail)},
      {"kernels", record.kernels},
      {"kernel_detail", known(record.kernel_detail)},
      {"strategies", record.strategies},
      {"baseline", {{"strategy", record.baseline_strategy}, {"ranks", known(record.baseline_ranks)}}},
      {"machine", record.machines.empty() ? Json(nullptr) : to_json(record.machines.front())},
  };
  if (record.machines.size() > 1) {
    for (const Machine& machine : record.machines) file["machines"].push_back(to_json(machine));
  }
  file["warnings"] = to_json(record.warnings);
  file["runs"] = std::move(runs);
  return file;
}

}  // namespace

std::string to_json(const RunRecord& record) {
  return to_text({
      {"pytorch_version", record.torch_version},
      {"cuda_version", known(record.cuda_version)},
      {"distributed_backend", record.distributed_backend},
      {"bucket_size", whole_if_possible(record.bucket_size_mb)},
      {"benchmark_results", benchmark_results(record)},
      {"lockstep", ours(record)},
  });
}

std::string machine_to_json(const Machine& machine) {
  return to_text(to_json(machine));
}

}  // namespace lockstep::results
