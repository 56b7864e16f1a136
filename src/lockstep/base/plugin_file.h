#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep {

/// A plugin's file, and advice for users who lack it.
struct PluginFile {
  /// "gloo" for lockstep_gloo.so.
  std::string name;
  /// The feature that needs the plugin, for error messages: "the gloo backend".
  std::string purpose;
  /// The library that it needs in turn, and advice if that is missing.
  std::string library;
  std::string install_advice;
  /// Advice if the plugin itself is missing.
  std::string build_advice;
  /// Flags for dlopen.
  int open_flags;
};

/// Calls the function `entry` of the plugin and returns its result, a table that begins with the version of
/// the binary interface. A plugin is opened once per process and never closed. Thread-safe. Throws
/// BackendMissing.
const void* open_plugin_file(const PluginFile& file, const char* entry, unsigned abi_version);

/// Path of the program that runs. Throws Error on a system without /proc.
std::filesystem::path program_path();

/// The folders that are searched for plugins: only those of LOCKSTEP_PLUGIN_PATH (separated by colons) if
/// that is set; else plugins/ beside the program, then ../lib/lockstep/.
std::vector<std::filesystem::path> plugin_folders();

}  // namespace lockstep
