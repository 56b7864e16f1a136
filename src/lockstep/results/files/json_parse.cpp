#include "lockstep/results/files/json_parse.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::results {
namespace {

/// Python writes these where a number is none; JSON has no such words.
void refuse_non_numbers(std::string_view text, size_t at, std::string_view name) {
  for (const std::string_view word : {"NaN", "Infinity"}) {
    if (!text.substr(std::min(at, text.size())).starts_with(word)) continue;
    throw Error(
        fmt::format("'{}': byte {} is {}, which is no number", name, at + 1, word),
        "Whatever wrote it measured nothing there: measure again, or take that result out of the file.");
  }
}

}  // namespace

nlohmann::json parse_json(std::string_view text, std::string_view name, std::string_view advice) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) {
    throw Error(fmt::format("'{}' is empty", name), "The run that was to write it did not get that far.");
  }
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    // The parser stands one past the last character when it wanted more.
    if ((text[first] == '{' || text[first] == '[') && error.byte > text.size()) {
      throw Error(fmt::format("'{}' is cut off after {} bytes: JSON that does not end", name, text.size()),
                  "Copy it again, or read the .partial file beside it.");
    }
    if (error.byte > 0) refuse_non_numbers(text, error.byte - 1, name);
    throw Error(fmt::format("'{}' is not JSON: byte {} does not fit", name, error.byte), std::string(advice));
  } catch (const nlohmann::json::out_of_range&) {
    throw Error(fmt::format("'{}' holds a number that is too large to be one", name), std::string(advice));
  } catch (const nlohmann::json::exception& error) {
    throw Error(fmt::format("'{}' is not usable JSON: {}", name, error.what()));
  }
}

}  // namespace lockstep::results
