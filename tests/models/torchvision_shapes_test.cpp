#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/file.h"
#include "lockstep/models/model.h"

namespace lockstep::models {
namespace {

using replica::NamedTensor;

/// "layer1.0.conv1.weight 64 64 1 1" of all tensors, as the lines of shapes/NAME.txt have it behind the kind.
std::vector<std::string> describe(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> lines;
  for (const NamedTensor& tensor : tensors) {
    std::string line = tensor.name;
    for (const int64_t size : tensor.value.sizes()) line += " " + std::to_string(size);
    lines.push_back(line);
  }
  return lines;
}

/// The lines of one kind, without the kind.
std::vector<std::string> reference_lines(const std::string& model, const std::string& kind) {
  std::istringstream text(read_file(LOCKSTEP_REFERENCES "/shapes/" + model + ".txt"));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with(kind + " ")) lines.push_back(line.substr(kind.size() + 1));
  }
  return lines;
}

class TorchvisionShapesTest : public testing::TestWithParam<std::string> {};

TEST_P(TorchvisionShapesTest, registers_torchvisions_tensors_in_its_order) {
  const std::unique_ptr<Model> model = registry().get(GetParam()).create({});
  EXPECT_THAT(describe(model->parameters().trainable()),
              testing::ElementsAreArray(reference_lines(GetParam(), "parameter")));
  EXPECT_THAT(describe(model->parameters().buffers()),
              testing::ElementsAreArray(reference_lines(GetParam(), "buffer")));
}

INSTANTIATE_TEST_SUITE_P(All, TorchvisionShapesTest,
                         testing::Values("resnet18", "resnet34", "resnet50", "resnet101", "resnet152",
                                         "resnext50_32x4d", "resnext101_32x8d", "alexnet", "alexnet_caffe",
                                         "vgg11", "vgg16", "vgg19", "googlenet", "googlenet_aux",
                                         "inception_v3", "inception_v3_aux", "resnet20", "resnet56"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace lockstep::models
