#include "row_flags.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

namespace lockstep::cli {

void add_step_flags(CLI::App& command, train::SweepOptions& sweep, const std::string& group) {
  command
      .add_option("--accumulate", sweep.accumulate,
                  "batches per rank whose gradients are added up before they are combined, once per step")
      ->capture_default_str()
      ->group(group);
  command.add_option("--image-size", sweep.image_size, "height and width of an image [the network's own]")
      ->group(group);
  command.add_option("--memory-format", sweep.memory_format, "channels_last or contiguous")
      ->capture_default_str()
      ->group(group);
  command.add_option("--seed", sweep.seed, "of initial values and batches")
      ->capture_default_str()
      ->group(group);
}

void add_input_flags(CLI::App& command, train::SweepOptions& sweep, const std::string& group) {
  command
      .add_option("--data", sweep.data,
                  "real data, for the input 'dataset': a folder with MNIST's or CIFAR-10's files, or with a "
                  "folder of images per class")
      ->type_name("FOLDER")
      ->group(group);
  command
      .add_option("--prefetch", sweep.input_flags.prefetch,
                  "batches that the inputs 'queue', 'dataset' and 'zmq' make, read or receive ahead [4]")
      ->group(group);
  command
      .add_option(
          "--input-workers", sweep.input_flags.workers,
          "threads per rank that make or read batches [1; dataset: as many as the rank computes with]")
      ->group(group);
  command
      .add_option("--address", sweep.input_flags.address,
                  "where the input 'zmq' takes batches: ipc:///tmp/NAME or tcp://HOST:PORT; 'lockstep feed' "
                  "sends some")
      ->group(group);
}

void add_optimizer_flags(CLI::App& command, train::SweepOptions& sweep, const std::string& group) {
  command.add_option("--momentum", sweep.momentum, "of the optimizer")->capture_default_str()->group(group);
  command.add_option("--weight-decay", sweep.weight_decay, "of the optimizer")
      ->capture_default_str()
      ->group(group);
}

}  // namespace lockstep::cli
