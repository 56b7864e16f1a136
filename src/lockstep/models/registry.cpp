#include "lockstep/models/lenet5.h"
#include "lockstep/models/mlp.h"
#include "lockstep/models/model.h"
#include "lockstep/models/resnet.h"

namespace lockstep::models {
namespace {

constexpr const char* kTorchBenchmark = "torchvision; batch of PyTorch's DDP benchmark";
constexpr const char* kTorchvision = "torchvision; batch as for resnet50";

ModelInfo residual(int64_t parameters, int64_t multiply_adds, const char* source,
                   decltype(ModelInfo::create) create) {
  ModelInfo info;
  info.parameters = parameters;
  info.multiply_adds = multiply_adds;
  info.source = source;
  info.create = create;
  return info;
}

/// A network whose first linear layer is made for one image size.
ModelInfo fixed_size(int64_t parameters, int64_t multiply_adds, int64_t channels, int64_t image_size,
                     const char* source, decltype(ModelInfo::create) create) {
  ModelInfo info;
  info.parameters = parameters;
  info.multiply_adds = multiply_adds;
  info.channels = channels;
  info.image_size = info.min_image_size = info.max_image_size = image_size;
  info.classes = 10;
  info.source = source;
  info.create = create;
  return info;
}

ModelInfo resnet50_v1() {
  ModelInfo info = residual(25'557'032, 3'857'973'248, "He et al. 2015; batch of tf_cnn_benchmarks' resnet50",
                            create_resnet50_v1);
  info.default_batch = 64;
  return info;
}

}  // namespace

const Registry<ModelInfo>& registry() {
  static const Registry<ModelInfo> all(
      "model", "lockstep info models",
      {
          {"resnet18", residual(11'689'512, 1'814'073'344, kTorchvision, create_resnet18)},
          {"resnet34", residual(21'797'672, 3'663'761'408, kTorchvision, create_resnet34)},
          {"resnet50", residual(25'557'032, 4'089'184'256, kTorchBenchmark, create_resnet50)},
          {"resnet101", residual(44'549'160, 7'801'405'440, kTorchBenchmark, create_resnet101)},
          {"resnet152",
           residual(60'192'808, 11'513'626'624, "torchvision; batch of tf_cnn_benchmarks", create_resnet152)},
          {"resnet50_v1", resnet50_v1()},
          {"resnext50_32x4d", residual(25'028'904, 4'230'479'872, kTorchBenchmark, create_resnext50_32x4d)},
          {"resnext101_32x8d",
           residual(88'791'336, 16'414'015'488, kTorchBenchmark, create_resnext101_32x8d)},
          {"lenet5", fixed_size(61'706, 416'520, 1, 28, "LeCun et al. 1998; batch of tf_cnn_benchmarks",
                                create_lenet5)},
          {"mlp", fixed_size(2'103'818, 2'102'272, 3, 32, "lockstep", create_mlp)},
          {"trivial",
           fixed_size(49'338, 49'312, 3, 32, "after tf_cnn_benchmarks, smaller; its batch", create_trivial)},
      });
  return all;
}

}  // namespace lockstep::models
