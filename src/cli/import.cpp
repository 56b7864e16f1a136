#include "lockstep/recordings/import.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/recordings/recording.h"
#include "lockstep/results/files/record_json.h"
#include "lockstep/results/record/launches.h"

#include "commands.h"
#include "console.h"
#include "output_files.h"
#include "recorded_trace.h"
#include "recording_folder.h"
#include "result_keeper.h"
#include "shared_flags.h"

namespace lockstep::cli {
namespace {

constexpr const char* kImportExamples = R"(Examples:
  lockstep import rank0.json.gz rank1.json.gz -o run.json
  lockstep import recording/ -o run.json              a folder of 'lockstep record --keep recording'
  lockstep import two/ --alone one/ -o run.json       beside one rank of the same script
  lockstep report run.json -o report.html             the result, on a page
Traces are those of torch.profiler (export_chrome_trace, tensorboard_trace_handler), of torch 1.13 to 2.11, on
CPUs or GPUs. docs/your-training.md explains what is read from them.
)";

struct ImportCommandOptions {
  std::vector<std::string> traces;
  std::string alone;
  std::string name;
  std::optional<int> samples_per_step;
  std::string output;
  std::string trace;
  bool append = false;
  bool force = false;
  results::RenderOptions how;
};

void say_progress(const std::string& file) {
  print_note(fmt::format("reading {}", file));
}

/// A result of lockstep, a trace, or a folder of these.
results::RunRecord read_alone(const ImportCommandOptions& options) {
  std::error_code error;
  const std::filesystem::path path = options.alone;
  const bool result =
      std::filesystem::is_regular_file(path, error) && is_own(path) && !recordings::is_rank_file(path);
  if (result) return results::read_record(path);
  return recordings::import_job(
      {.paths = {path}, .name = {}, .samples_per_step = options.samples_per_step, .progress = say_progress});
}

int run_import(const ImportCommandOptions& options) {
  check_style(options.how);
  std::vector<GivenFile> inputs;
  for (const std::string& trace : options.traces) inputs.push_back({"a trace", trace});
  if (!options.alone.empty()) inputs.push_back({"--alone", options.alone});
  if (options.append && (options.output.empty() || options.output == "-"))
    throw ConfigError("--append needs -o FILE.json, the file to add this recording to");
  refuse_stdout({{"--trace", options.trace}});
  check_output_files({{"-o", options.output}, {"--trace", options.trace}}, inputs, options.force);
  note_leftovers();
  results::RunRecord record = import_with_trace({.paths = {options.traces.begin(), options.traces.end()},
                                                 .name = options.name,
                                                 .samples_per_step = options.samples_per_step,
                                                 .progress = say_progress},
                                                options.trace);
  if (!options.alone.empty()) recordings::add_alone(record, read_alone(options));
  if (options.append && holds_something(options.output)) {
    results::RunRecord whole = results::read_record(options.output);
    results::add_launch(whole, std::move(record));
    record = std::move(whole);
  }
  if (!options.output.empty()) write_result(options.output, results::to_json(record));
  if (options.output != "-") print_record(record, options.how, /*with_header=*/true);
  return kExitDone;
}

}  // namespace

RunCommand add_import(Flags& flags) {
  const auto options = std::make_shared<ImportCommandOptions>();
  flags.set_examples(kImportExamples);
  flags.add("traces", options->traces,
            "traces of PyTorch's profiler, one per rank, or folders of such traces or of a recording",
            {.value = "TRACE", .required = true});
  flags.add("--alone", options->alone,
            "one rank of the same script without others, as a trace, a folder or a result: the baseline of "
            "speed-up "
            "and efficiency",
            {.value = "RUN"});
  flags.add("--name", options->name, "name of the network [that of the script]", {.value = "NAME"});
  flags.add("--samples-per-step", options->samples_per_step,
            "samples that one rank trains in a step [by the recording, or by shapes in the trace]",
            {.value = "N", .numbers = counts_up_to(1e9)});
  flags.add("-o,--output", options->output, "the result to write, as JSON; - for stdout",
            {.value = "FILE.json"});
  flags.add_switch(
      "--append", options->append,
      "add this recording to those that the -o file holds: other numbers of ranks, or the same again");
  flags.add("--trace", options->trace, "a trace to write, for Perfetto: the steps above PyTorch's events",
            {.value = "FILE"});
  add_style_flags(flags, options->how);
  add_force_flag(flags, options->force);
  return [options](const Arguments& /*arguments*/) { return run_import(*options); };
}

}  // namespace lockstep::cli
