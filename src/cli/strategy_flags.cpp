#include "strategy_flags.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace lockstep::cli {

void add_strategy_flags(CLI::App& command, std::vector<strategies::GivenOption>& given) {
  const std::string group = "Strategy";
  for (const strategies::OptionInfo& option : strategies::option_infos()) {
    const std::string text = fmt::format("{} ({}) [{}]", option.description,
                                         fmt::join(option.strategies, ", "), option.default_value);
    const auto add = [&given, flag = option.flag](const std::string& value) {
      given.push_back({flag, value});
    };
    if (option.is_switch) {
      command
          .add_flag_callback(
              option.flag, [add] { add("on"); }, text)
          ->group(group);
    } else {
      command.add_option_function<std::string>(option.flag, add, text)->group(group);
    }
  }
}

}  // namespace lockstep::cli
