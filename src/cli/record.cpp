#include <csignal>
#include <cstdlib>
#include <memory>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/number_range.h"
#include "lockstep/base/units.h"
#include "lockstep/launch/child_process.h"
#include "lockstep/launch/signals.h"
#include "lockstep/results/files/record_json.h"

#include "commands.h"
#include "console.h"
#include "output_files.h"
#include "recorded_trace.h"
#include "recording_folder.h"
#include "result_keeper.h"
#include "shared_flags.h"

namespace lockstep::cli {
namespace {

constexpr const char* kRecordExamples = R"(Examples:
  lockstep record -- python3 train.py
      one process; the 20 steps after warm-up are traced
  lockstep record -- torchrun --nproc-per-node 2 train.py --epochs 1
      every rank that torchrun starts; mpirun, srun and accelerate launch as well
  lockstep record --steps 200:210 -o run.json -- python3 train.py
      the steps 200 to 209; 'lockstep report run.json -o run.html' explains the result on a page
  lockstep record --keep /shared/run -- srun -N 2 python3 train.py
      ranks on several hosts, which all see this folder
The script runs as it would without lockstep: record ends with its exit code, and what goes wrong in the
recorder is a warning. docs/your-training.md explains what is measured.
)";

struct RecordOptions {
  PassedOn words;
  std::string steps;
  std::string keep;
  double max_trace_mib = 1024;
  std::string name;
  std::string output;
  std::string trace;
  bool force = false;
  bool quiet = false;
  results::RenderOptions how;
};

/// "FIRST:LAST". Step 0 begins before anything is recorded, and the profiler warms up in the two before
/// FIRST.
std::optional<std::pair<int64_t, int64_t>> window_of(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const size_t colon = text.find(':');
  const NumberRange steps{.least = 3, .most = 1e9};
  const auto first = parse_whole(text.substr(0, colon), steps);
  const auto last = parse_whole(colon == std::string::npos ? "" : text.substr(colon + 1), steps);
  if (first && last && *first < *last && text.find(' ') == std::string::npos) return std::pair{*first, *last};
  throw ConfigError(fmt::format("--steps takes FIRST:LAST, as in 100:120, not '{}'", text),
                    "The first step of a training is 0. FIRST is 3 or more; LAST itself is not traced.");
}

void check_command(const PassedOn& words) {
  if (words.divided && !words.behind.empty()) return;
  throw ConfigError("record needs a command behind '--'",
                    "As in 'lockstep record -- torchrun --nproc-per-node 2 train.py'.");
}

/// A folder before those of the user in a variable.
std::pair<std::string, std::string> with_first(const char* variable, const std::string& first) {
  const char* before = std::getenv(variable);
  return {variable, before == nullptr || *before == '\0' ? first : fmt::format("{}:{}", first, before)};
}

void import_recording(const std::filesystem::path& folder, const RecordOptions& options) {
  const results::RunRecord record =
      import_with_trace({.paths = {folder}, .name = options.name}, options.trace);
  if (!options.output.empty()) write_result(options.output, results::to_json(record));
  print_record(record, options.how, /*with_header=*/true);
}

/// Leaves the exit code to the command: what cannot be imported is a warning, and stays. A signal meanwhile
/// lets the recording stay, too.
void conclude(RecordingFolder& folder, const RecordOptions& options, int exit_code) {
  launch::SignalPipe signals{SIGINT, SIGTERM, SIGHUP};
  const size_t ranks = folder.ranks().size();
  if (std::error_code failed; !std::filesystem::exists(folder.path(), failed)) {
    print_warning(fmt::format("nothing is kept: '{}' was removed", folder.path().string()), "");
    return;
  }
  if (ranks == 0 && exit_code != 0) {
    print_warning(fmt::format("nothing was recorded: the command failed before its first step (exit code {})",
                              exit_code),
                  "");
    return;
  }
  if (ranks == 0) {
    print_warning(
        "nothing was recorded: no process of the command made a step with an optimizer of torch.optim",
        "Python's options -I, -E and -S keep the recorder out; a loop without such an optimizer calls "
        "lockstep.step(). docs/your-training.md has more.");
    return;
  }
  try {
    folder.finish();
    import_recording(folder.path(), options);
  } catch (const std::exception& error) {
    const Trouble trouble = trouble_of(error);
    print_warning("the recording could not be imported: " + trouble.what, trouble.advice);
    folder.keep();
  }
  if (signals.take()) folder.keep();
  if (folder.kept()) {
    print_note(fmt::format("kept: {}; lockstep import {}", counted(ranks, "rank"), folder.path().string()));
  }
}

std::vector<std::pair<std::string, std::string>> environment_for(const RecordingFolder& folder) {
  std::vector variables{with_first("PYTHONPATH", folder.recorder()), with_first("PATH", folder.programs())};
  // python/lockstep/program.py led this program to its own LibTorch.
  if (const char* before = std::getenv("LOCKSTEP_USERS_LIBRARY_PATH"))
    variables.emplace_back("LD_LIBRARY_PATH", before);
  return variables;
}

int run_record(const RecordOptions& options) {
  check_command(options.words);
  check_style(options.how);
  const std::vector<GivenFile> outputs{{"-o", options.output}, {"--trace", options.trace}};
  refuse_stdout(outputs);
  check_output_files(outputs, {}, options.force);
  const Arguments& command = options.words.behind;
  RecordingFolder folder(
      options.keep, options.force,
      {.steps = window_of(options.steps),
       .max_trace_bytes = static_cast<int64_t>(options.max_trace_mib * static_cast<double>(kMiB)),
       .command = command});
  note_leftovers();
  Arguments words = command;
  // Python looks for itself on PATH unless its name has a folder, and would find the recorder's there.
  const std::string program = launch::find_program(command.front());
  if (!program.empty() && command.front().find('/') == std::string::npos) words.front() = program;
  const launch::ChildEnd end = launch::run_child({.program = command.front(),
                                                  .arguments = words,
                                                  .environment = environment_for(folder),
                                                  .in_terminal = true});
  conclude(folder, options, end.exit_code);
  return end.exit_code;
}

}  // namespace

RunCommand add_record(Flags& flags) {
  const auto options = std::make_shared<RecordOptions>();
  flags.take_behind_divider(options->words);
  flags.set_examples(kRecordExamples);
  flags.begin_group("Options, before '--'");
  flags.add("--steps", options->steps,
            "steps to trace, the first being 0 [20 after warm-up; 50:70 on several hosts]",
            {.value = "FIRST:LAST"});
  flags.add("--keep", options->keep,
            "folder for the recording, which 'lockstep import' reads [a temporary one]", {.value = "FOLDER"});
  flags.add("--max-trace", options->max_trace_mib,
            "trace fewer steps where a rank's trace would be larger [1GB]",
            {.value = "SIZE", .numbers = NumberRange{.most = 1e6, .above = true, .unit = Unit::kMebibytes}});
  flags.add("--name", options->name, "name of the network [that of the script]", {.value = "NAME"});
  flags.add("-o,--output", options->output, "the result to write, as JSON", {.value = "FILE.json"});
  flags.add("--trace", options->trace, "a trace to write, for Perfetto: the steps above PyTorch's events",
            {.value = "FILE"});
  add_style_flags(flags, options->how);
  flags.add_switch("--force", options->force,
                   "replace an earlier recording in --keep, and a file of -o that lockstep did not write");
  flags.add_switch("-q,--quiet", options->quiet, "print no notes");
  return [options](const Arguments& /*arguments*/) {
    if (options->quiet) set_quiet(true);
    return run_record(*options);
  };
}

}  // namespace lockstep::cli
