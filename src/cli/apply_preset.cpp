#include <algorithm>
#include <array>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "presets.h"

namespace lockstep::cli {
namespace {

/// A flag that says otherwise what a preset's flag says.
struct StandIn {
  const char* flag;
  const char* user_flag;
};

constexpr std::array<StandIn, 5> kStandIns{{{"--batch", "--global-batch"},
                                            {"--steps", "--precision-target"},
                                            {"--steps", "--max-time"},
                                            {"--warmup", "--precision-target"},
                                            {"--warmup", "--max-time"}}};

bool chosen_otherwise(const std::string& flag, const CLI::App& command) {
  if (command.count(flag) > 0) return true;
  return std::ranges::any_of(kStandIns, [&](const StandIn& stand_in) {
    return flag == stand_in.flag && command.count(stand_in.user_flag) > 0;
  });
}

/// Whether one of the strategies knows a flag of the group "Strategy"; the other flags concern all.
bool means_something(const std::string& flag, const std::vector<std::string>& strategies) {
  const auto& options = strategies::option_infos();
  const auto option = std::ranges::find(options, flag, &strategies::OptionInfo::flag);
  if (option == options.end()) return true;
  return std::ranges::any_of(strategies, [&](const std::string& name) { return option->concerns(name); });
}

}  // namespace

std::string flags_text(const Preset& preset) {
  std::vector<std::string> texts;
  for (const auto& [flag, value] : preset.flags) texts.push_back(flag + " " + value);
  return fmt::format("{}", fmt::join(texts, " "));
}

std::string apply_preset(const std::string& name, CLI::App& command, const train::SweepOptions& sweep) {
  const Preset& preset = presets().get(name);
  std::vector<std::string> overridden;
  const auto apply = [&](const std::string& flag, const std::string& value) {
    if (chosen_otherwise(flag, command) || !means_something(flag, sweep.strategies)) {
      overridden.push_back(flag + " " + value);
      return;
    }
    CLI::Option* option = command.get_option(flag);
    option->add_result(value);
    option->run_callback();
  };
  // The strategy first: what its flags mean depends on it.
  for (const bool strategy : {true, false}) {
    for (const auto& [flag, value] : preset.flags) {
      if ((flag == "--strategy") == strategy) apply(flag, value);
    }
  }

  std::string text = fmt::format("preset {}: {}\n  stands for {}", name, preset.source, flags_text(preset));
  if (!overridden.empty()) {
    text += fmt::format("\n  left to your flags: {}", fmt::join(overridden, " "));
  }
  for (const std::string& difference : preset.differences) text += "\n  not as there: " + difference;
  return text;
}

}  // namespace lockstep::cli
