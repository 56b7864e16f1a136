#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "command_line.h"

namespace lockstep::cli {

/// Runs the command that the arguments name, the program's name first, and prints what is wrong with either.
/// Returns the exit code.
int run_program(const Arguments& arguments);

// The sub-commands, each in the file of its name; plot and show are in report.cpp.

RunCommand add_bench(Flags& flags);
RunCommand add_compare(Flags& flags);
RunCommand add_train(Flags& flags);
RunCommand add_verify(Flags& flags);
RunCommand add_collectives(Flags& flags);
RunCommand add_record(Flags& flags);
RunCommand add_import(Flags& flags);
RunCommand add_info(Flags& flags);
RunCommand add_diff(Flags& flags);
RunCommand add_report(Flags& flags);
RunCommand add_show(Flags& flags);
RunCommand add_predict(Flags& flags);
RunCommand add_plot(Flags& flags);
RunCommand add_feed(Flags& flags);
RunCommand add_topo(Flags& flags);
RunCommand add_docs(Flags& flags);
RunCommand add_completion(Flags& flags, const CommandLine& commands);

/// The text of `info model NAME` about a built-in network or one from a file: its samples and batches, and
/// what decides how it scales. Throws ConfigError.
std::string model_text(const std::string& name);

/// Values of each trainable tensor of a network, in order of registration. Throws ConfigError.
std::vector<int64_t> parameter_values(const std::string& name);

/// Trainable values of the built-in network that a published table calls `name`; 0: there is none.
double published_parameters(const std::string& name);

}  // namespace lockstep::cli
