#include "commands.h"

#include <exception>

#include "lockstep/train/job/versions.h"

#include "command_line.h"
#include "console.h"

namespace lockstep::cli {
namespace {

constexpr const char* kFooter = R"(Start here:
  lockstep bench                     train ResNet-50 on 1, 2, ... ranks and print how it scales
  lockstep bench --help              every flag, with examples
  lockstep info                      what is installed, and what can be measured
  lockstep topo                      what this machine looks like
  lockstep report RESULT.json -o report.html
                                     explain a result on one page, with charts
  lockstep docs                      the pages of the documentation
  python -m lockstep export torchvision:vit_b_16 -o vit.pt2
                                     put a PyTorch network into a file for --model
  lockstep diff BASE.json TEST.json  what changed between two results, and how certain that is
  lockstep compare --bucket-mb 25 -- --bucket-mb 1
                                     which of two settings is faster, launched in turn until it is certain
  lockstep collectives               what the links between the ranks give
  lockstep record -- torchrun --nproc-per-node 2 train.py
                                     where the time of your own training goes

Exit codes: 0 done, 1 the run or a check failed, 2 wrong usage, 3 a regression was found,
4 a backend is missing, 130 interrupted (Ctrl-C), 143 terminated.
)";

}  // namespace

int run_program(const Arguments& arguments) {
  CommandLine line("lockstep measures data-parallel training and explains the result", train::version_text(),
                   kFooter);
  line.add("bench", "train on 1, 2 and more ranks and print how it scales", &add_bench);
  line.add("train", "train a network, with checkpoints to resume from", &add_train);
  line.add("verify", "check that strategies compute what they promise", &add_verify);
  line.add("collectives", "measure what the links between ranks give: collectives at every size, checked",
           &add_collectives);
  line.add("record", "record your own PyTorch training, without a change of its script", &add_record);
  line.add("info", "versions, devices, backends, models, strategies, inputs, kernels and presets", &add_info);
  line.add("compare", "run two configurations of bench in turn until it is certain which is faster",
           &add_compare);
  line.add("diff", "compare two results row by row, with how certain each difference is", &add_diff);
  line.add("import", "explain your own training, from traces of PyTorch's profiler", &add_import);
  line.add("report", "write a page that explains one or several results", &add_report);
  line.add("show", "print the tables of a saved result, in any style", &add_show);
  line.add("predict", "predict how training scales beyond what was measured, with intervals", &add_predict);
  line.add("plot", "write one chart of one or several results as SVG, PDF or PNG", &add_plot);
  line.add("feed", "send random batches to a bench with --input zmq", &add_feed);
  line.add("topo", "processors, GPUs and network devices, and what connects them", &add_topo);
  line.add("docs", "print a page of the documentation, or the list of all", &add_docs);
  line.add("completion", "print the script that completes commands, flags and names in a shell",
           [&line](Flags& flags) { return add_completion(flags, line); });
  try {
    RunCommand command;
    const int code = report_once([&] {
      command = line.parse(arguments);
      return kExitDone;
    });
    return command ? command(arguments) : code;
  } catch (const std::exception& error) {
    return report(error);
  }
}

}  // namespace lockstep::cli
