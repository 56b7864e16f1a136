#include "lockstep/train/rows/row_input.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/names.h"
#include "lockstep/base/registry.h"
#include "lockstep/feed/message.h"
#include "lockstep/inputs/dataset.h"
#include "lockstep/inputs/sources.h"
#include "lockstep/models/traced_model.h"

namespace lockstep::train {

c10::MemoryFormat parse_memory_format(const std::string& name) {
  static const Registry<c10::MemoryFormat> formats(
      "memory format", "lockstep bench --help",
      {{"channels_last", c10::MemoryFormat::ChannelsLast}, {"contiguous", c10::MemoryFormat::Contiguous}});
  return formats.get(name);
}

namespace {

inputs::Description description_of(const network_file::Sample& sample) {
  return {.name = sample.name,
          .shape = sample.shape,
          .type = models::scalar_type(sample.type),
          .type_name = network_file::name_of(sample.type),
          .channels_last = sample.channels_last,
          .mean = sample.mean,
          .deviation = sample.deviation,
          .low = sample.low,
          .high = sample.high};
}

/// Whether the input has images with labels for a network that a file describes.
bool makes_images(const RowPlan& row) {
  const auto file = models::info_of(row.model).file;
  if (file == nullptr || row.input == "device" || !file->labelled_images()) return false;
  return row.input != "dataset" || !inputs::holds_tensors(row.data);
}

}  // namespace

std::vector<inputs::Description> descriptions_of(const network_file::NetworkFile& file) {
  std::vector<inputs::Description> all;
  for (const auto* samples : {&file.inputs, &file.targets}) {
    std::ranges::transform(*samples, std::back_inserter(all), &description_of);
  }
  return all;
}

inputs::InputOptions input_options_of(const RowPlan& row) {
  const models::ModelInfo& model = models::info_of(row.model);
  const int ranks = training_ranks(row);
  inputs::InputOptions options;
  options.batch = row.batch_per_rank * (row.ranks / ranks);
  options.channels = model.channels;
  options.image_size = row.image_size;
  options.classes = model.classes;
  options.seed = row.seed;
  options.ranks = ranks;
  options.memory_format = parse_memory_format(row.memory_format);
  if (makes_images(row)) {
    const network_file::LabelledImages images = model.file->labelled_images().value();
    options.channels = images.channels;
    options.image_size = images.size;
    options.classes = images.classes;
  } else if (model.file != nullptr) {
    options.described = descriptions_of(*model.file);
  }
  options.data = row.data;
  options.batches_per_step = row.accumulate;
  options.workers = row.input_flags.workers.value_or(options.workers);
  options.prefetch = row.input_flags.prefetch.value_or(options.prefetch);
  options.address = row.input_flags.address;
  options.timeout_s = row.input_flags.timeout_s;
  return options;
}

namespace {

using inputs::InputInfo;

/// A flag of inputs that was given, and the member of InputInfo that says which inputs take it.
struct GivenFlag {
  std::string flag;
  bool InputInfo::*has = nullptr;
};

std::string inputs_with(bool InputInfo::*has) {
  std::vector<std::string> names;
  for (const auto& [name, info] : inputs::registry().entries()) {
    if (info.*has) names.push_back(name);
  }
  return join_alternatives(names);
}

void check_flags(const RowPlan& row) {
  const InputFlags& flags = row.input_flags;
  std::vector<GivenFlag> given;
  if (!row.data.empty()) given.push_back({"--data " + row.data, &InputInfo::has_data});
  if (!flags.address.empty()) given.push_back({"--address " + flags.address, &InputInfo::has_address});
  if (flags.prefetch)
    given.push_back({fmt::format("--prefetch {}", *flags.prefetch), &InputInfo::has_prefetch});
  if (flags.workers)
    given.push_back({fmt::format("--input-workers {}", *flags.workers), &InputInfo::has_workers});
  const InputInfo& info = inputs::registry().get(row.input);
  for (const auto& [flag, has] : given) {
    if (info.*has) continue;
    throw ConfigError(fmt::format("{} is of no use to the input '{}'", flag, row.input),
                      fmt::format("Add --input {}.", inputs_with(has)));
  }
  if (!info.has_address) return;
  if (flags.address.empty()) {
    throw ConfigError(
        fmt::format("the input '{}' needs --address, where batches arrive", row.input),
        "ipc:///tmp/NAME on one host, or tcp://HOST:PORT; 'lockstep feed --help' has examples.");
  }
  feed::address_of_rank(flags.address, training_ranks(row) - 1);
}

}  // namespace

void check_inputs(const std::vector<RowPlan>& rows) {
  std::vector<inputs::InputOptions> with_data;
  for (const RowPlan& row : rows) {
    check_flags(row);
    if (inputs::registry().get(row.input).has_data) with_data.push_back(input_options_of(row));
  }
  inputs::check_dataset(with_data);
}

InputFacts look_at_input(const RowPlan& row, bool evaluates) {
  if (row.input != "dataset") {
    return {.steps_per_epoch = std::max<int64_t>(1, inputs::kDeviceBatches / row.accumulate), .data = ""};
  }
  inputs::InputOptions options = input_options_of(row);
  const inputs::DatasetFacts training = inputs::look_at_dataset(options);
  if (evaluates) {
    options.evaluation = true;
    inputs::check_dataset({&options, 1});
  }
  return {.steps_per_epoch = training.batches_per_epoch / row.accumulate, .data = training.text};
}

}  // namespace lockstep::train
