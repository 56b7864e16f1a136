#pragma once

#include <string_view>

#include <nlohmann/json.hpp>

namespace lockstep::results {

/// JSON text of somebody else's file. Throws Error that names `name`, with `advice` where the text is none:
/// for what is empty, cut off, no JSON, or holds what is no number.
nlohmann::json parse_json(std::string_view text, std::string_view name,
                          std::string_view advice = "Give a file that lockstep bench wrote with --json.");

}  // namespace lockstep::results
