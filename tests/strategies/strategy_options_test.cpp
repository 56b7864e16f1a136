#include "lockstep/strategies/strategy_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/strategies/strategy.h"

namespace lockstep::strategies {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string refusal(const std::vector<GivenOption>& given, const std::vector<std::string>& names) {
  try {
    check_options(given, names);
  } catch (const ConfigError& error) {
    return std::string(error.what()) + " " + error.advice();
  }
  return "accepted";
}

TEST(StrategyOptionsTest, what_a_strategy_does_not_know_is_refused_with_those_that_do) {
  EXPECT_THAT(refusal({{"--overlap", "off"}}, {"ddp"}),
              AllOf(HasSubstr("--overlap has no effect on the strategy ddp"), HasSubstr("replicated")));
  // In a sweep it is for those that know it.
  EXPECT_EQ(refusal({{"--overlap", "off"}}, {"ddp", "replicated"}), "accepted");
}

TEST(StrategyOptionsTest, what_is_given_is_set_and_the_rest_keeps_its_default) {
  EXPECT_FALSE(options_of("replicated", {{"--overlap", "off"}}).overlap);
  EXPECT_TRUE(options_of("replicated", {}).overlap);
  // It is for another strategy of the sweep.
  EXPECT_TRUE(options_of("ddp", {{"--overlap", "off"}}).overlap);
}

TEST(StrategyOptionsTest, every_option_has_a_strategy_and_takes_its_own_default) {
  for (const OptionInfo& option : option_infos()) {
    ASSERT_FALSE(option.strategies.empty()) << option.flag;
    for (const std::string& name : option.strategies) EXPECT_NO_THROW(registry().get(name)) << option.flag;
    if (option.is_switch) continue;
    EXPECT_EQ(refusal({{option.flag, option.default_value}}, option.strategies), "accepted") << option.flag;
  }
}

TEST(StrategyOptionsTest, whatever_is_given_is_spelled_out_again) {
  const auto told = [](const StrategyOptions& options, const std::string& flag) {
    for (const GivenOption& option : spelled_out(options)) {
      if (option.flag == flag) return option.value;
    }
    return std::string("nothing");
  };
  for (const OptionInfo& option : option_infos()) {
    EXPECT_EQ(told({}, option.flag), option.default_value);
    const std::vector<std::string> values =
        option.values.empty() ? std::vector<std::string>{option.whole ? "7" : "0.25"} : option.values;
    for (const std::string& value : values) {
      EXPECT_EQ(told(options_of(option.strategies.front(), {{option.flag, value}}), option.flag), value)
          << option.flag;
    }
  }
}

TEST(StrategyOptionsTest, stages_of_sharded_have_names_of_their_own) {
  const auto text_of = [](const std::string& name) {
    const Resolved resolved = resolve(name, {});
    return resolved.strategy + " " + options_text(resolved.given, resolved.strategy);
  };
  EXPECT_EQ(text_of("zero1"), "sharded ");
  EXPECT_EQ(text_of("zero2"), "sharded --shard gradients");
  EXPECT_EQ(text_of("zero3"), "sharded --shard parameters");
  EXPECT_EQ(text_of("fsdp"), text_of("zero3"));
  EXPECT_EQ(text_of("ddp"), "ddp ");
}

}  // namespace
}  // namespace lockstep::strategies
