#include "presets.h"

#include <algorithm>
#include <array>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace lockstep::cli {
namespace {

constexpr const char* kRandomData = "random images and labels, made once on the device and used in turn";

/// ResNet-MultiGPU's resnet-multigpu.py: the first of its epochs of 50 steps warms up.
Preset tensorpack(const char* row, int batch, const char* more, std::vector<std::string> differences) {
  differences.emplace_back("labels are made once, not in every step; images are fp32, not uint8");
  return {fmt::format("tensorpack/benchmarks, README of ResNet-MultiGPU: {}", row),
          fmt::format("--model resnet50_v1 --batch {} --input device --memory-format contiguous --lr 0.1 "
                      "--momentum 0 --weight-decay 1e-4 --warmup 50 --steps 450 --style tensorpack {}",
                      batch, more),
          std::move(differences)};
}

/// The speed-up notebook; as many steps as make 5120 images on one device.
Preset theano_mpi(const char* row, const char* model, int batch, const char* learning_rate,
                  const char* weight_decay, std::vector<std::string> differences) {
  differences.emplace_back(fmt::format("{}, not ImageNet from a loader process", kRandomData));
  differences.emplace_back(
      "one learning rate, not twice as much for biases; momenta are averaged, not summed");
  differences.emplace_back(
      "the source says NCCL32 and half precision of the same numbers; --exchange nccl16 sends the latter");
  return {fmt::format("Theano-MPI, speedup-n_workers.ipynb: {}", row),
          fmt::format("--model {} --batch {} --strategy bsp --exchange nccl32 --bsp-sync cdd --input device "
                      "--memory-format contiguous --lr {} --momentum 0.9 --weight-decay {} --steps {} "
                      "--style theano",
                      model, batch, learning_rate, weight_decay, 5120 / batch),
          std::move(differences)};
}

/// A flag and its value.
using Setting = std::pair<std::string, std::string>;

std::vector<Setting> settings_of(const Preset& preset) {
  std::vector<Setting> settings;
  std::istringstream words(preset.flags);
  for (Setting one; words >> one.first >> one.second;) settings.push_back(one);
  return settings;
}

/// A flag of the user's that settles what a preset's flag would set.
struct StandIn {
  const char* flag;
  const char* user_flag;
};

constexpr std::array<StandIn, 5> kStandIns{{{"--batch", "--global-batch"},
                                            {"--steps", "--precision-target"},
                                            {"--steps", "--max-time"},
                                            {"--warmup", "--precision-target"},
                                            {"--warmup", "--max-time"}}};

bool chosen_otherwise(const std::string& flag, const Flags& given) {
  if (given.given(flag)) return true;
  return std::ranges::any_of(kStandIns, [&](const StandIn& stand_in) {
    return flag == stand_in.flag && given.given(stand_in.user_flag);
  });
}

/// Whether one of the strategies knows a flag of the group "Strategy"; other flags apply to all.
bool means_something(const std::string& flag, const std::vector<std::string>& strategies) {
  const auto& options = strategies::option_infos();
  const auto option = std::ranges::find(options, flag, &strategies::OptionInfo::flag);
  if (option == options.end()) return true;
  return std::ranges::any_of(strategies, [&](const std::string& name) { return option->concerns(name); });
}

}  // namespace

// Each row names the table that published it, the flags that come closest, and in words all that still
// differs. A flag that no row sets has lockstep's default.
const Registry<Preset>& presets() {
  static const Registry<Preset> all(
      "preset", "lockstep info presets",
      {{"pytorch-throughput",
        {"xuewanqi/pytorch_throughput, README: 32 images per K80",
         "--model resnet50 --batch 32 --strategy ddp --input device --memory-format contiguous --lr 0.1 "
         "--momentum 0.9 --weight-decay 1e-5 --warmup 5 --steps 495 --style throughput",
         {"forward and backward end when they are done, not when their kernels are launched",
          "ddp on one node too, where the source has a script with nn.DataParallel as well"}}},
       {"tensorpack-replicated", tensorpack("replicated, input gpu, batch 64", 64, "--strategy replicated",
                                            {"gradients are averaged, not summed"})},
       {"tensorpack-parameter-server",
        tensorpack("parameter_server, input gpu, batch 64", 64,
                   "--strategy parameter_server --parameter-owners rank0",
                   {"rank 0 holds and updates all variables, where the source's host does"})},
       {"tensorpack-horovod",
        tensorpack("horovod, 8 V100, batch 64", 64, "--strategy horovod --cycle-ms 5 --fusion-mb 64",
                   {"cycle and fusion are Horovod's defaults of 2019; the row does not state them"})},
       {"tensorpack-fp16-128",
        tensorpack("replicated, fp16, 8 V100, batch 128, not compiled", 128,
                   "--strategy replicated --precision bf16",
                   {"bf16 (autocast) in place of fp16, which lockstep trains in on GPUs only",
                    "gradients are averaged, not summed, and sent in fp32",
                    "nothing is compiled: the row with XLA has no counterpart here"})},
       {"tf-cnn-benchmarks",
        {"tf_cnn_benchmarks in tensorpack/benchmarks, README of ResNet-MultiGPU: replicated, batch 64",
         "--model resnet50_v1 --batch 64 --strategy replicated --input device --memory-format contiguous "
         "--lr 0.032 --momentum 0 --weight-decay 4e-5 --warmup 10 --steps 100 --style tensorpack",
         {"gradients are averaged, not summed; the learning rate is that of one device, 0.128 * 64 / 256",
          "--strategy parameter_server gives the other row of the same system"}}},
       {"pytorch-ddp",
        {"pytorch/pytorch, README of benchmarks/distributed/ddp",
         "--model resnet50,resnet101,resnext50_32x4d,resnext101_32x8d --batch 32 --strategy ddp "
         "--bucket-mb 25 --input device --memory-format contiguous --lr 0.001 --momentum 0.9 "
         "--weight-decay 1e-4 --warmup 5 --steps 10 --style ddp",
         {fmt::format("{}, not one batch of one label", kRandomData),
          "gradients are cleared in every step"}}},
       {"theano-mpi-googlenet-32b",
        theano_mpi("GoogLeNet-32b", "googlenet_aux", 32, "0.005", "2e-4",
                   {"torchvision's network with batch norm (13,004,888 parameters), not the paper's with "
                    "local response normalisation (13,378,280)"})},
       {"theano-mpi-alexnet-128b", theano_mpi("AlexNet-128b", "alexnet_caffe", 128, "0.01", "5e-4", {})},
       {"theano-mpi-vgg16-16b", theano_mpi("VGG16-16b", "vgg16", 16, "0.002", "5e-4", {})},
       {"theano-mpi-vgg16-32b", theano_mpi("VGG16-32b", "vgg16", 32, "0.002", "5e-4", {})},
       {"theano-mpi-resnet50-64b", theano_mpi("ResNet50-64b", "resnet50_v1", 64, "0.025", "1e-4",
                                              {"the first convolution has no bias beside its batch norm"})}});
  return all;
}

std::string apply_preset(const std::string& name, Flags& flags, const train::SweepOptions& sweep) {
  const Preset& preset = presets().get(name);
  std::vector<std::string> overridden;
  const auto apply = [&](const std::string& flag, const std::string& value) {
    if (chosen_otherwise(flag, flags) || !means_something(flag, sweep.strategies)) {
      overridden.push_back(flag + " " + value);
      return;
    }
    flags.set(flag, value);
  };
  // The strategy first: it decides which of the other flags apply.
  std::vector<Setting> settings = settings_of(preset);
  std::ranges::stable_partition(settings, [](const Setting& one) { return one.first == "--strategy"; });
  for (const auto& [flag, value] : settings) apply(flag, value);

  std::string text = fmt::format("preset {}: {}\n  stands for {}", name, preset.source, preset.flags);
  if (!overridden.empty()) {
    text += fmt::format("\n  replaced by your flags: {}", fmt::join(overridden, " "));
  }
  for (const std::string& difference : preset.differences) text += "\n  not as there: " + difference;
  return text;
}

}  // namespace lockstep::cli
