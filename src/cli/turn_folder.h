#pragma once

#include <filesystem>
#include <string>

namespace lockstep::cli {

/// The folder of a comparison in turns: the result files of both sides, and what their launches print. One
/// that is not kept is removed with this.
class TurnFolder {
 public:
  /// `keep`: --keep; empty: a private folder. Throws ConfigError where it cannot be made, and unless `force`
  /// where it holds an earlier comparison, which is removed otherwise.
  TurnFolder(const std::string& keep, bool force);
  ~TurnFolder();
  TurnFolder(const TurnFolder&) = delete;
  TurnFolder& operator=(const TurnFolder&) = delete;

  std::filesystem::path base() const { return folder_ / "base.json"; }
  std::filesystem::path test() const { return folder_ / "test.json"; }
  std::filesystem::path log() const { return folder_ / "launches.log"; }
  bool kept() const { return kept_; }

 private:
  std::filesystem::path folder_;
  bool kept_;
};

}  // namespace lockstep::cli
