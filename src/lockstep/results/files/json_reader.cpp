#include "lockstep/results/files/json_reader.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>
#include <variant>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/results/files/json_findings.h"
#include "lockstep/results/files/json_gpus.h"
#include "lockstep/results/files/json_layers.h"
#include "lockstep/results/files/json_node.h"
#include "lockstep/results/files/json_parse.h"
#include "lockstep/results/files/json_state.h"
#include "lockstep/results/files/system_json.h"
#include "lockstep/results/record/baseline.h"

namespace lockstep::results {
namespace {

std::vector<Warning> read_warnings(const JsonNode& node) {
  std::vector<Warning> warnings;
  if (node.missing()) return warnings;
  for (const JsonNode& warning : node.elements()) {
    warnings.push_back(
        {warning["text"].text(), warning["advice"].text_or(""), warning["loud"].flag_or(false)});
  }
  return warnings;
}

std::vector<std::string> read_texts(const JsonNode& node) {
  return node.missing() ? std::vector<std::string>() : node.texts();
}

/// [[per rank] per step]; every step with `width` ranks, or with any number of them when it is 0.
std::vector<std::vector<double>> read_samples(const JsonNode& node, size_t width) {
  std::vector<std::vector<double>> samples;
  for (const JsonNode& step : node.elements()) {
    samples.push_back(step.numbers());
    if (samples.back().size() != width) step.refuse(fmt::format("one number per rank, {}", width));
  }
  return samples;
}

/// Steps of each launch, which must add up to `steps`.
std::vector<int> read_launch_steps(const JsonNode& node, size_t steps) {
  std::vector<int> launches;
  if (node.missing()) return launches;
  int64_t sum = 0;
  for (const JsonNode& launch : node.elements()) {
    launches.push_back(launch.count(0));
    sum += launches.back();
  }
  if (!launches.empty() && sum != static_cast<int64_t>(steps)) {
    node.refuse(fmt::format("counts that add up to the {} steps of the samples", steps));
  }
  return launches;
}

Machine read_machine(const JsonNode& node) {
  Machine machine;
  machine.host = node["host"].text_or("");
  machine.os = node["os"].text_or("");
  machine.kernel = node["kernel"].text_or("");
  machine.processor = node["processor"].text_or("");
  machine.packages = node["packages"].count_or(0, 0);
  machine.numa_nodes = node["numa_nodes"].count_or(0, 0);
  machine.cores = node["cores"].count_or(0, 0);
  machine.host_cores = node["host_cores"].count_or(0, 0);
  machine.hardware_threads = node["hardware_threads"].count_or(0, 0);
  machine.host_hardware_threads = node["host_hardware_threads"].count_or(0, 0);
  machine.cpu_quota = node["cpu_quota"].optional_number();
  machine.memory_bytes = node["memory_bytes"].whole_or(0);
  machine.host_memory_bytes = node["host_memory_bytes"].whole_or(0);
  machine.available_memory_bytes = node["available_memory_bytes"].whole_or(0);
  machine.swap_used_bytes = node["swap_used_bytes"].whole_or(0);
  machine.load_average = node["load_average"].optional_number();
  machine.governor = node["governor"].text_or("");
  machine.max_frequency_mhz = node["max_frequency_mhz"].optional_number();
  machine.virtual_machine = node["virtual_machine"].flag_or(false);
  machine.transparent_hugepages = node["transparent_hugepages"].text_or("");
  machine.gpus = read_texts(node["gpus"]);
  machine.map = read_device_map(node["topology"]);
  return machine;
}

std::optional<Baseline> read_baseline(const JsonNode& node) {
  if (node.missing()) return std::nullopt;
  return Baseline{node["strategy"].text(), node["ranks"].count(1), node["images_per_s"].number_or(0)};
}

void read_findings(Run& run, const JsonNode& node) {
  run.warmup_steps = node["warmup_steps"].count_or(0, 0);
  run.warmup_choice = node["warmup_choice"].text_or("");
  run.stopped = node["stopped"].text_or("");
  run.coupled = node["coupled"].flag_or(true);
  run.pooled = node["pooled"].flag_or(false);
  run.elapsed_s = node["elapsed_s"].number_or(0);
  const JsonNode step_s = node["step_s"];
  run.step_s = {step_s["p50"].optional_number(), step_s["p75"].optional_number(),
                step_s["p90"].optional_number(), step_s["p95"].optional_number(),
                step_s["p99"].optional_number()};
  run.images_per_s = node["images_per_s"].number_or(0);
  run.step_interval_s = read_interval(node["step_interval_s"]);
  run.rate_interval = read_interval(node["images_per_s_interval"]);
  run.speedup = node["speedup"].optional_number();
  run.efficiency = node["efficiency"].optional_number();
  run.baseline = read_baseline(node["baseline"]);
  run.factors = read_factors(node["factors"]);
  run.breakdown = read_breakdown(node["breakdown"], run.ranks);
  run.resources = read_resources(node["resources"]);
  run.gpu_use = read_gpu_use(node["gpu_use"]);
  run.memory = read_memory(node["memory"]);
  run.tuning = read_tuning(node["tuning"]);
  run.replica_checks = read_replica_checks(node["replica_checks"]);
  run.own_measures = read_own_measures(node["own_measures"]);
  run.input_queues = read_input_queues(node["input_queues"]);
  run.limit_images_per_s = node["limit_images_per_s"].optional_number();
  run.layers = read_layers(node["layers"]);
  if (const JsonNode loss = node["loss"]; !loss.missing()) {
    run.loss_first = loss["first"].number_or(std::numeric_limits<double>::quiet_NaN());
    run.loss_last = loss["last"].number_or(std::numeric_limits<double>::quiet_NaN());
  }
  run.warnings = read_warnings(node["warnings"]);
  const size_t width = run.pooled ? 1 : static_cast<size_t>(run.ranks);
  run.samples = read_samples(node["samples"], width);
  if (const JsonNode warmup = node["warmup_samples"]; !warmup.missing()) {
    run.warmup_samples = read_samples(warmup, width);
  }
  run.launch_steps = read_launch_steps(node["launch_steps"], run.samples.size());
  run.launch_warmup_steps = read_launch_steps(node["launch_warmup_steps"], run.warmup_samples.size());
}

void read_setting(const Setting& setting, const JsonNode& node, Setup& setup) {
  const JsonNode found = node[setting.key];
  if (found.missing() && setting.if_absent != IfAbsent::kRefused) {
    setting.set_absent(setup);
    return;
  }
  std::visit(
      [&](auto member) {
        using T = std::remove_cvref_t<decltype(setup.*member)>;
        if constexpr (std::is_same_v<T, std::string>) {
          setup.*member = found.text();
        } else if constexpr (std::is_same_v<T, bool>) {
          setup.*member = found.flag();
        } else if constexpr (std::is_same_v<T, double>) {
          setup.*member = found.number();
        } else if constexpr (std::is_same_v<T, int>) {
          setup.*member = static_cast<int>(found.whole(setting.least, setting.most));
        } else {
          setup.*member = static_cast<T>(found.whole_or(0));
        }
      },
      setting.member);
}

Run read_run(const JsonNode& node) {
  Run run;
  for (const Setting& setting : kSettings) read_setting(setting, node, run);
  run.device_settings = node["device_settings"].text_or("");
  read_findings(run, node);
  return run;
}

void read_ours(RunRecord& record, const JsonNode& node, std::string_view name) {
  record.schema_version = node["schema_version"].count(1);
  if (record.schema_version > kSchemaVersion) {
    throw Error(fmt::format("'{}' is of schema version {}; this lockstep reads up to {}", name,
                            record.schema_version, kSchemaVersion),
                "Use the lockstep that wrote it, or a newer one.");
  }
  record.source = node["source"].text_or("lockstep");
  record.lockstep_version = node["version"].text_or("");
  record.started_at = node["started_at"].text_or("");
  record.launches_started_at = read_texts(node["launches_started_at"]);
  record.incomplete = node["incomplete"].text_or("");
  record.command = read_texts(node["command"]);
  record.launch = node["launch"].text_or("");
  record.binding = node["binding"].text_or("");
  record.ranks = node["ranks"].count_or(0, 0);
  record.threads_per_rank = node["threads_per_rank"].count_or(0, 0);
  record.rank_cpus = read_texts(node["rank_cpus"]);
  record.rank_gpus = read_rank_gpus(node["rank_gpus"]);
  record.cudnn_version = node["cudnn_version"].text_or("");
  record.allocator = node["allocator"].text_or("");
  record.backend_detail = node["backend_detail"].text_or("");
  record.kernels = read_texts(node["kernels"]);
  record.kernel_detail = node["kernel_detail"].text_or("");
  record.strategies = read_texts(node["strategies"]);
  if (const JsonNode baseline = node["baseline"]; !baseline.missing()) {
    record.baseline_strategy = baseline["strategy"].text_or(kSingle);
    record.baseline_ranks = baseline["ranks"].count_or(0, 0);
  }
  if (const JsonNode machines = node["machines"]; !machines.missing()) {
    for (const JsonNode& machine : machines.elements()) record.machines.push_back(read_machine(machine));
  } else if (const JsonNode machine = node["machine"]; !machine.missing()) {
    record.machines.push_back(read_machine(machine));
  }
  record.warnings = read_warnings(node["warnings"]);
  for (const JsonNode& run : node["runs"].elements()) record.runs.push_back(read_run(run));
}

/// A result of PyTorch's benchmark: `measurements` holds the samples of all ranks, one rank after the other.
Run read_pytorch_run(const JsonNode& result, const RunRecord& record, bool no_ddp) {
  Run run{unknown_setup()};
  run.strategy = no_ddp ? kSingle : "ddp";
  run.backend = no_ddp ? "" : record.distributed_backend;
  run.device = record.cuda_version.empty() ? "cpu" : "cuda";
  run.memory_format = "contiguous";
  run.bucket_mb = no_ddp ? 0 : record.bucket_size_mb;
  run.pooled = true;
  run.ranks = static_cast<int>(result["ranks"].elements().size());
  if (run.ranks < 1) result["ranks"].refuse("at least one rank");
  run.loss_first = run.loss_last = std::numeric_limits<double>::quiet_NaN();
  for (const double sample : result["measurements"].numbers()) run.samples.push_back({sample});
  return run;
}

void read_pytorch(RunRecord& record, const JsonNode& root) {
  record.source = "pytorch";
  for (const JsonNode& benchmark : root["benchmark_results"].elements()) {
    const std::string model = benchmark["model"].text();
    const int batch = benchmark["batch_size"].count(1);
    bool no_ddp = true;
    for (const JsonNode& result : benchmark["result"].elements()) {
      Run run = read_pytorch_run(result, record, no_ddp);
      no_ddp = false;
      if (run.samples.empty()) continue;
      run.model = model;
      run.batch_per_rank = batch;
      std::vector<double> pooled;
      for (const auto& sample : run.samples) pooled.push_back(sample[0]);
      run.step_s = measure::step_percentiles(pooled);
      const double mean_s =
          std::accumulate(pooled.begin(), pooled.end(), 0.0) / static_cast<double>(pooled.size());
      run.images_per_s = mean_s > 0 ? run.ranks * static_cast<double>(batch) / mean_s : 0;
      record.runs.push_back(std::move(run));
    }
  }
  assign_baselines(record);
}

}  // namespace

RunRecord from_json(std::string_view text, std::string_view name) {
  const nlohmann::json document = parse_json(text, name);
  const JsonNode root(document, name);
  if (!document.is_object() || root["benchmark_results"].missing()) {
    throw Error(
        fmt::format("'{}' is JSON, but no result of lockstep bench or of PyTorch's DDP benchmark: it has no "
                    "'benchmark_results'",
                    name),
        "Give a file that lockstep bench wrote with --json.");
  }
  RunRecord record;
  record.torch_version = root["pytorch_version"].text_or("");
  record.cuda_version = root["cuda_version"].text_or("");
  record.distributed_backend = root["distributed_backend"].text_or("");
  record.bucket_size_mb = root["bucket_size"].number_or(25);
  if (const JsonNode ours = root["lockstep"]; !ours.missing()) {
    read_ours(record, ours, name);
  } else {
    read_pytorch(record, root);
  }
  return record;
}

RunRecord read_record(const std::filesystem::path& path) {
  return from_json(read_file(path), path.string());
}

Machine machine_from_json(std::string_view text) {
  const nlohmann::json document = parse_json(text, "machine");
  return read_machine(JsonNode(document, "machine"));
}

}  // namespace lockstep::results
