#include "lockstep/base/names.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

const std::vector<std::string> kModels{"resnet18", "resnet50", "resnet152", "vgg16", "lenet5"};

TEST(NamesTest, typing_errors_find_their_name) {
  EXPECT_EQ(nearest_names("resnt50", kModels).front(), "resnet50");
  EXPECT_EQ(nearest_names("vgg", kModels), std::vector<std::string>{"vgg16"});
  EXPECT_TRUE(nearest_names("transformer", kModels).empty());
}

TEST(NamesTest, an_unknown_name_is_refused_with_the_nearest) {
  try {
    throw_unknown_name("model", "lenet", kModels, "lockstep info models");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "unknown model 'lenet'; did you mean lenet5?");
    EXPECT_NE(error.advice().find("lockstep info models"), std::string::npos);
  }
}

}  // namespace
}  // namespace lockstep
