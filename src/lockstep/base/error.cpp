#include "lockstep/base/error.h"

#include <filesystem>
#include <new>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace lockstep {

Trouble trouble_of(const std::exception& error) {
  if (const auto* ours = dynamic_cast<const Error*>(&error))
    return {.what = ours->what(), .advice = ours->advice(), .exit_code = ours->exit_code()};
  if (const auto* files = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
    return {.what = fmt::format("cannot use '{}': {}", files->path1().string(), files->code().message()),
            .advice = "Give a path that exists, that you may use, and that is no link to itself."};
  if (dynamic_cast<const nlohmann::json::exception*>(&error) != nullptr)
    return {.what = "a JSON file holds another kind of value than lockstep writes there",
            .advice = "Give files as lockstep wrote them."};
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return {.what = "memory ran out", .advice = "Give fewer or smaller files, or use a host with more."};
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  if (system == nullptr || system->code() != std::errc::resource_unavailable_try_again)
    return {.what = error.what(), .advice = ""};
  return {.what = fmt::format("cannot start a thread: {}", error.what()),
          .advice =
              "The limit of processes (ulimit -u) or of memory may be reached: raise it, or use fewer "
              "ranks or threads."};
}

}  // namespace lockstep
