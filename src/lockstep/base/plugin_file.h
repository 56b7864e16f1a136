#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep {

/// A plugin's file, and what to tell the user who lacks it.
struct PluginFile {
  /// "gloo", of lockstep_gloo.so.
  std::string name;
  /// Who needs it: "the gloo backend".
  std::string purpose;
  /// The library that it needs in turn, and what to do where that is missing.
  std::string library;
  std::string install_advice;
  /// What to do where the plugin itself is missing.
  std::string build_advice;
  /// dlopen's.
  int open_flags;
};

/// What the function `entry` of the plugin returns: a table that begins with a number of the binary
/// interface. Opened once per process and never closed; thread-safe. Throws BackendMissing.
const void* open_plugin_file(const PluginFile& file, const char* entry, unsigned abi_version);

/// Where plugins are looked for: the folders of LOCKSTEP_PLUGIN_PATH (separated by colons) and no others when
/// it is set; else plugins/ beside the program, then ../lib/lockstep/ of it.
std::vector<std::filesystem::path> plugin_folders();

}  // namespace lockstep
