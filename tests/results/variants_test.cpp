#include <functional>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lockstep/results/files/record_json.h"
#include "lockstep/results/record/baseline.h"
#include "lockstep/results/tables/tables.h"

#include "golden/golden.h"
#include "results/sample_runs.h"

namespace lockstep::results {
namespace {

/// All that is printed and written of a record.
std::string everything(const RunRecord& record) {
  std::string text = header_text(record);
  for (const Warning& warning : warnings_of_record(record)) text += "record: " + warning.text + '\n';
  for (const Warning& warning : warnings_of_rows(record)) text += "rows: " + warning.text + '\n';
  for (const std::string& style : styles().names()) text += render(record, {.style = style});
  return text + closing_text(record) + to_csv(record);
}

/// The lines of `text` that `known` does not have.
std::string new_lines(const std::string& known, const std::string& text) {
  std::multiset<std::string> left;
  for (const std::string& line : testing_golden::lines_of(known)) left.insert(line);
  std::string found;
  for (const std::string& line : testing_golden::lines_of(text)) {
    if (const auto place = left.find(line); place != left.end()) {
      left.erase(place);
    } else {
      found += line + '\n';
    }
  }
  return found + fmt::format("({} lines are gone)\n", left.size());
}

using Change = std::function<void(RunRecord& record, Run& ddp)>;

const std::vector<std::pair<std::string, Change>>& changes() {
  static const std::vector<std::pair<std::string, Change>> all{
      {"nothing was checked",
       [](RunRecord& record, Run&) {
         for (Run& run : record.runs) run.replica_checks.reset();
       }},
      {"only a row that cannot be checked", [](RunRecord&, Run& ddp) { ddp.replica_checks.reset(); }},
      {"only a row that was checked", [](RunRecord& record, Run&) { record.runs[2].replica_checks.reset(); }},
      {"no straggler, all hidden",
       [](RunRecord& record, Run& ddp) {
         ddp.breakdown->straggler.reset();
         ddp.breakdown->mean.waiting_s = ddp.breakdown->mean.transfer_s = 0;
         assign_factors(record);
       }},
      {"nothing communicated", [](RunRecord&, Run& ddp) { ddp.breakdown->communication_s = 0; }},
      {"no breakdown",
       [](RunRecord& record, Run& ddp) {
         ddp.breakdown.reset();
         assign_factors(record);
       }},
      {"the default bucket stays",
       [](RunRecord&, Run& ddp) {
         ddp.tuning->chosen_mb = ddp.tuning->default_mb;
         ddp.tuning->speedup = ddp.tuning->speedup_low = ddp.tuning->speedup_high = std::nullopt;
         ddp.tuning->reason = "nothing is faster for certain";
       }},
      {"a busy machine",
       [](RunRecord&, Run& ddp) {
         ddp.resources->other_load = 0.5;
         ddp.resources->processor_utilisation = 0.125;
         ddp.resources->page_faults = {5'000'000, 10};
         ddp.resources->peak_device_memory_bytes.clear();
       }},
      {"unfinished", [](RunRecord&, Run& ddp) { ddp.unfinished = "rank 1 was killed"; }},
      {"incomplete", [](RunRecord& record, Run&) { record.incomplete = "ended by Ctrl-C"; }},
      {"unsettled", [](RunRecord&, Run& ddp) { ddp.unsettled = "trend"; }},
      {"no controls",
       [](RunRecord& record, Run&) {
         record.runs.erase(record.runs.begin() + 2);
         record.runs.erase(record.runs.begin());
         assign_baselines(record);
         assign_factors(record);
       }},
      {"another baseline",
       [](RunRecord& record, Run&) {
         record.baseline_strategy = "ddp";
         record.baseline_ranks = 2;
         assign_baselines(record);
         assign_factors(record);
       }},
      {"tokens in bf16, accumulated",
       [](RunRecord& record, Run&) {
         for (Run& run : record.runs) {
           run.unit = "token";
           run.units_per_sample = 128;
           run.precision = "bf16";
           run.accumulate = 4;
         }
       }},
      {"strong scaling",
       [](RunRecord& record, Run&) {
         for (Run& run : record.runs) run.global_batch = 16;
       }},
      {"very slow",
       [](RunRecord& record, Run&) {
         for (Run& run : record.runs) run.images_per_s = 0.0125;
       }},
      {"very fast",
       [](RunRecord& record, Run&) {
         for (Run& run : record.runs) run.images_per_s = 1.25e7;
       }},
      {"not a number",
       [](RunRecord& record, Run& ddp) {
         ddp.images_per_s = std::numeric_limits<double>::quiet_NaN();
         ddp.loss_last = std::numeric_limits<double>::infinity();
         assign_baselines(record);
       }},
      {"five launches with intervals",
       [](RunRecord& record, Run& ddp) {
         record.launches_started_at.assign(5, "2030-01-02T03:04:05Z");
         ddp.launch_steps = {1, 1, 1, 1, 0};
         ddp.launch_warmup_steps = {1, 1, 0, 0, 0};
         ddp.rate_interval = Interval{28, 31, ""};
         ddp.step_interval_s = Interval{0.5, 0.5625, ""};
         record.runs[0].rate_interval = Interval{15.5, 16.25, ""};
         assign_baselines(record);
       }},
      {"an interval that is missing",
       [](RunRecord&, Run& ddp) {
         ddp.rate_interval = Interval{0, 0, "trend"};
       }},
      {"many hosts",
       [](RunRecord& record, Run& ddp) {
         for (int i = 2; i < 12; ++i) {
           record.machines.push_back(record.machines[0]);
           record.machines.back().host = fmt::format("node{}", i);
           if (i == 5) record.machines.back().cores = 8;
         }
         ddp.hosts = 2;
         record.launch = "torchrun";
       }},
      {"a host that says little",
       [](RunRecord& record, Run&) {
         Machine& machine = record.machines[0];
         machine.cpu_quota.reset();
         machine.host_cores = machine.cores;
         machine.host_hardware_threads = machine.hardware_threads = machine.cores;
         machine.governor.clear();
         machine.virtual_machine = false;
         machine.gpus.clear();
         machine.map = {};
         machine.host_memory_bytes = machine.memory_bytes;
         record.rank_gpus.clear();
         record.binding = "none";
         record.rank_cpus.clear();
       }},
      {"strategy with options and a graph",
       [](RunRecord&, Run& ddp) {
         ddp.strategy_options = "--wire bf16 --overlap off";
         ddp.cuda_graph = true;
         ddp.device = "cuda";
       }},
      {"settings beside the defaults",
       [](RunRecord& record, Run&) {
         for (Run& run : record.runs) {
           run.learning_rate = 0.1;
           run.momentum = 0;
           run.weight_decay = 0;
           run.nesterov = true;
           run.seed = 7;
           run.memory_format = "contiguous";
           run.data = "data/digits";
           run.input = "dataset";
           run.bucket_mb = 0.5;
         }
       }},
      {"memory that is the same everywhere",
       [](RunRecord&, Run& ddp) {
         ddp.memory->buffers = {0, 0};
         ddp.memory->momenta = {1 << 20, 1 << 20};
       }},
      {"one queue that was empty",
       [](RunRecord&, Run& ddp) {
         ddp.input_queues.pop_back();
         ddp.input_queues[0].empty = 3;
         ddp.input_queues[0].empty_s = 0.75;
         ddp.input_queues[0].full = 0;
       }},
      {"loud warnings on all rows",
       [](RunRecord& record, Run&) {
         for (Run& run : record.runs) run.warnings = {{"Ranks take turns.", "Use fewer.", true}};
       }},
  };
  return all;
}

/// Each change of a record, by the lines of its tables and files that it changes.
TEST(VariantsTest, read_as_they_did) {
  const std::string known = everything(small_record());
  std::string text;
  for (const auto& [name, change] : changes()) {
    RunRecord record = small_record();
    change(record, record.runs[1]);
    text += fmt::format("== {}\n{}", name, new_lines(known, everything(record)));
    // Files have null for numbers that are not finite.
    if (name != "not a number") {
      EXPECT_EQ(to_json(from_json(to_json(record), "a.json")), to_json(record)) << name;
    }
  }
  testing_golden::expect_golden("variants.txt", text);
}

}  // namespace
}  // namespace lockstep::results
