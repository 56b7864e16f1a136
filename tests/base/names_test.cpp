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

TEST(NamesTest, flags_take_the_place_of_others_of_their_name) {
  EXPECT_EQ(flag_name("--batch=4"), "batch");
  EXPECT_EQ(flag_name("-q"), "q");
  const std::vector<std::string> words{"--model", "a", "--ranks=1,2", "-q", "--lr", "0.1"};
  EXPECT_EQ(with_flags(words, {"--ranks", "2"}),
            (std::vector<std::string>{"--model", "a", "-q", "--lr", "0.1", "--ranks", "2"}));
  EXPECT_EQ(without_flags(words, std::vector<std::string_view>{"q", "model"}),
            (std::vector<std::string>{"--ranks=1,2", "--lr", "0.1"}));
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
