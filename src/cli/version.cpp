#include "version.h"

#include <fmt/format.h>

#include <torch/version.h>

namespace lockstep::cli {

std::string lockstep_version() {
  return LOCKSTEP_VERSION;
}
std::string torch_version() {
  return fmt::format("{}.{}.{}", TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR, TORCH_VERSION_PATCH);
}
std::string version_text() {
  return fmt::format("lockstep {} (LibTorch {})", lockstep_version(), torch_version());
}

}  // namespace lockstep::cli
