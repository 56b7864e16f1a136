#pragma once

#include <string>

namespace lockstep::architecture {

struct Compilation {
  bool ok = false;
  /// Output of the compiler, in the C locale.
  std::string messages;
};

/// Whether the build has this part (the parts with Torch are missing where it is built without).
bool part_is_built(const std::string& part);

/// Checks the syntax of `source` as a file of `part`: with the include folders and options that the build
/// gives to that part. Nothing is written but a temporary file.
Compilation compile_in_part(const std::string& part, const std::string& source);

}  // namespace lockstep::architecture
