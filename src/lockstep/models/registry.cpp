#include <filesystem>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/models/networks.h"
#include "lockstep/models/plugin_model.h"
#include "lockstep/models/replayed_model.h"
#include "lockstep/models/traced_model.h"

namespace lockstep::models {
namespace {

// Origin of a network's structure and its default batch.
constexpr const char* kTorch = "torchvision; batch as for resnet50";
constexpr const char* kTorchDdp = "torchvision; batch of PyTorch's DDP benchmark";
constexpr const char* kTorchTf = "torchvision; batch of tf_cnn_benchmarks";
constexpr const char* kTorchPack = "torchvision; batch of tensorpack's AlexNet";
constexpr const char* kTorchMpi = "torchvision; batch of Theano-MPI";
constexpr const char* kTheanoMpi = "Theano-MPI";
constexpr const char* kHe = "He et al. 2015; batch of tf_cnn_benchmarks";
constexpr const char* kHeResnet50 = "He et al. 2015; batch of tf_cnn_benchmarks' resnet50";
constexpr const char* kLeCun = "LeCun et al. 1998; batch of tf_cnn_benchmarks";
constexpr const char* kTfTrivial = "after tf_cnn_benchmarks, smaller; its batch";
constexpr const char* kLockstep = "lockstep";

/// The images of a data set, as ModelInfo describes them.
struct Images {
  int64_t channels, size, min_size, max_size, classes;
};
constexpr Images kFrom32{3, 224, 32, kMaxImageSize, kImageNetClasses};
constexpr Images kFrom63{3, 224, 63, kMaxImageSize, kImageNetClasses};
constexpr Images kOnly227{3, 227, 227, 227, kImageNetClasses};
constexpr Images kFrom75{3, 299, 75, kMaxImageSize, kImageNetClasses};
constexpr Images kFrom299{3, 299, 299, kMaxImageSize, kImageNetClasses};
constexpr Images kCifar{3, 32, 32, 32, kCifar10Classes};
constexpr Images kCifarUp{3, 32, 32, kMaxImageSize, kCifar10Classes};
constexpr Images kMnist{1, 28, 28, 28, 10};

ModelInfo row(int64_t parameters, int64_t tensors, int64_t largest, int64_t multiply_adds,
              const Images& images, int batch, const char* source, CreateModel create) {
  return {.parameters = parameters,
          .parameter_tensors = tensors,
          .largest_parameter = largest,
          .multiply_adds = multiply_adds,
          .channels = images.channels,
          .image_size = images.size,
          .min_image_size = images.min_size,
          .max_image_size = images.max_size,
          .classes = images.classes,
          .default_batch = batch,
          .source = source,
          .create = create};
}

/// Refuses a file of another kind than networks are read from, by its ending.
void refuse_other_file(const std::string& name) {
  const std::string ending = std::filesystem::path(name).extension();
  const bool values = ending == ".pt" || ending == ".pth" || ending == ".ckpt" || ending == ".bin" ||
                      ending == ".safetensors";
  const char* what = values              ? "a file of values, or TorchScript"
                     : ending == ".onnx" ? "an ONNX graph, which has no training step"
                     : ending == ".py"   ? "Python source"
                                         : nullptr;
  if (what == nullptr) return;
  throw ConfigError(
      fmt::format("--model {}: that is {}, and a network comes from a .pt2 file", name, what),
      "Export the PyTorch module with lockstep.export() in Python; docs/your-network.md shows how.");
}

}  // namespace

bool is_from_file(const std::string& name) {
  return is_replay(name) || name.ends_with(".pt2") || is_plugin_network(name);
}

const ModelInfo& info_of(const std::string& name) {
  if (!is_from_file(name)) {
    refuse_other_file(name);
    return registry().get(name);
  }
  static std::mutex mutex;
  static std::map<std::string, ModelInfo> files;
  const std::lock_guard<std::mutex> lock(mutex);
  auto known = files.find(name);
  if (known == files.end())
    known = files
                .emplace(name, is_replay(name)           ? replayed_network(name)
                               : is_plugin_network(name) ? plugin_network(name)
                                                         : traced_network(name))
                .first;
  return known->second;
}

const Registry<ModelInfo>& registry() {
  // clang-format off
  static const Registry<ModelInfo> all("model", "lockstep info models", {
  //                     parameters in tensors, largest   multiply-adds images  batch source       builds it
  {"resnet18",         row( 11'689'512,  62,   2'359'296,  1'814'073'344, kFrom32,   32, kTorch,      create_resnet18)},
  {"resnet34",         row( 21'797'672, 110,   2'359'296,  3'663'761'408, kFrom32,   32, kTorch,      create_resnet34)},
  {"resnet50",         row( 25'557'032, 161,   2'359'296,  4'089'184'256, kFrom32,   32, kTorchDdp,   create_resnet50)},
  {"resnet101",        row( 44'549'160, 314,   2'359'296,  7'801'405'440, kFrom32,   32, kTorchDdp,   create_resnet101)},
  {"resnet152",        row( 60'192'808, 467,   2'359'296, 11'513'626'624, kFrom32,   32, kTorchTf,    create_resnet152)},
  {"resnet50_v1",      row( 25'557'032, 161,   2'359'296,  3'857'973'248, kFrom32,   64, kHeResnet50, create_resnet50_v1)},
  {"resnext50_32x4d",  row( 25'028'904, 161,   2'097'152,  4'230'479'872, kFrom32,   32, kTorchDdp,   create_resnext50_32x4d)},
  {"resnext101_32x8d", row( 88'791'336, 314,   4'194'304, 16'414'015'488, kFrom32,   32, kTorchDdp,   create_resnext101_32x8d)},
  {"alexnet",          row( 61'100'840,  16,  37'748'736,    714'188'480, kFrom63,   64, kTorchPack,  create_alexnet)},
  {"alexnet_caffe",    row( 60'965'224,  16,  37'748'736,    724'406'816, kOnly227, 128, kTheanoMpi,  create_alexnet_caffe)},
  {"vgg11",            row(132'863'336,  22, 102'760'448,  7'609'090'048, kFrom32,   64, kTorchTf,    create_vgg11)},
  {"vgg16",            row(138'357'544,  32, 102'760'448, 15'470'264'320, kFrom32,   64, kTorchTf,    create_vgg16)},
  {"vgg19",            row(143'667'240,  38, 102'760'448, 19'632'062'464, kFrom32,   64, kTorchTf,    create_vgg19)},
  {"googlenet",        row(  6'624'904, 173,   1'024'000,  1'498'376'192, kFrom32,   32, kTorchTf,    create_googlenet)},
  {"googlenet_aux",    row( 13'004'888, 187,   2'097'152,  1'506'748'416, kFrom32,   32, kTorchMpi,   create_googlenet_aux)},
  {"inception_v3",     row( 23'834'568, 284,   2'048'000,  5'713'216'096, kFrom75,   32, kTorchTf,    create_inception_v3)},
  {"inception_v3_aux", row( 27'161'264, 292,   2'457'600,  5'718'899'296, kFrom299,  32, kTorchTf,    create_inception_v3_aux)},
  {"resnet20",         row(    269'722,  59,      36'864,     40'551'040, kCifarUp, 128, kHe,         create_resnet20)},
  {"resnet56",         row(    853'018, 167,      36'864,    125'485'696, kCifarUp, 128, kHe,         create_resnet56)},
  {"lenet5",           row(     61'706,  10,      48'000,        416'520, kMnist,    32, kLeCun,      create_lenet5)},
  {"mlp",              row(  2'103'818,   8,   1'572'864,      2'102'272, kCifar,    32, kLockstep,   create_mlp)},
  {"trivial",          row(     49'338,   4,      49'152,         49'312, kCifar,    32, kTfTrivial,  create_trivial)},
  });
  // clang-format on
  return all;
}

}  // namespace lockstep::models
