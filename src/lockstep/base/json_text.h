#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace lockstep {

/// Keys in the order in which they were set.
using Json = nlohmann::ordered_json;

/// Indented by two spaces, but lists of plain values on one line, so that the samples of a step stay
/// together. Numbers that are not finite become null, invalid UTF-8 is replaced. Ends with a newline.
std::string json_text(const Json& json);

}  // namespace lockstep
