#include "turn_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"

namespace lockstep::cli {
namespace fs = std::filesystem;
namespace {

fs::path own_folder() {
  return temporary_path(fmt::format("lockstep-compare-{}-{}", ::geteuid(), ::getpid()));
}

}  // namespace

TurnFolder::TurnFolder(const std::string& keep, bool force)
    : folder_(keep.empty() ? own_folder() : fs::path(keep)), kept_(!keep.empty()) {
  if (!kept_) {
    make_private_folder(folder_);
    return;
  }
  std::error_code failed;
  fs::create_directories(folder_, failed);
  if (failed) {
    throw ConfigError(fmt::format("--keep '{}' cannot be made: {}", keep, failed.message()),
                      "Give a folder that can be written.");
  }
  for (const fs::path& file : {base(), test(), log()}) {
    if (!fs::exists(file)) continue;
    if (!force) {
      throw ConfigError(fmt::format("--keep: '{}' is there already, and would be lost", file.string()),
                        "Choose another folder, or add --force to replace it.");
    }
    fs::remove(file);
  }
}

TurnFolder::~TurnFolder() {
  std::error_code ignored;
  if (!kept_) fs::remove_all(folder_, ignored);
}

}  // namespace lockstep::cli
