#include "lockstep/base/plugin_file.h"

#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
constexpr const char* kNoPlugins =
    "the sanitizers refuse RTLD_DEEPBIND, which keeps a plugin's library apart from LibTorch's copy, and "
    "cannot see into the libraries";

const void* open_at(const PluginFile& plugin, const std::filesystem::path& file, const char* entry,
                    unsigned abi_version) {
  void* handle = ::dlopen(file.c_str(), plugin.open_flags);
  if (handle == nullptr) {
    throw BackendMissing(
        fmt::format("{} needs {}, which cannot be loaded: {}", plugin.purpose, plugin.library, ::dlerror()),
        plugin.install_advice);
  }
  const auto call = reinterpret_cast<const void* (*)()>(::dlsym(handle, entry));
  const void* table = call == nullptr ? nullptr : call();
  // Every table begins with the version of its interface, so that a stale plugin is refused, not called.
  if (table == nullptr || *static_cast<const uint32_t*>(table) != abi_version) {
    throw BackendMissing(fmt::format("{} is not a plugin of this version of lockstep", file.string()),
                         "build and install the program and its plugins together");
  }
  return table;
}

}  // namespace

std::filesystem::path program_path() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) throw Error("cannot determine the path of this program: there is no /proc");
  return program;
}

std::vector<std::filesystem::path> plugin_folders() {
  // Set: only these folders, so that a test or a second installation cannot pick up the plugins of the first.
  if (const char* path = std::getenv("LOCKSTEP_PLUGIN_PATH"); path != nullptr && *path != '\0') {
    std::vector<std::filesystem::path> folders;
    std::string_view rest = path;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find(':'), rest.size());
      if (end > 0) folders.emplace_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return folders;
  }
  try {
    // The build folder first, then the place of an installed program.
    const std::filesystem::path folder = program_path().parent_path();
    return {folder / "plugins", folder.parent_path() / "lib" / "lockstep"};
  } catch (const Error&) {
    return {};
  }
}

const void* open_plugin_file(const PluginFile& file, const char* entry, unsigned abi_version) {
  static std::mutex mutex;
  static std::map<std::string, const void*> opened;
  const std::lock_guard lock(mutex);
  // Caches opened plugins only; a missing one is searched for again.
  if (const auto found = opened.find(file.name); found != opened.end()) return found->second;

  const std::vector<std::filesystem::path> folders = plugin_folders();
  std::vector<std::string> names;
  for (const std::filesystem::path& folder : folders) {
    const std::filesystem::path path = folder / fmt::format("lockstep_{}.so", file.name);
    names.push_back(folder.string());
    std::error_code error;
    if (!std::filesystem::exists(path, error)) continue;
    if (kSanitized) {
      throw BackendMissing(fmt::format("{} is not in sanitizer builds: {}", file.purpose, kNoPlugins),
                           "use the thread backend, or a build without sanitizers");
    }
    return opened[file.name] = open_at(file, path, entry, abi_version);
  }
  if (names.empty()) names = {"the program's folder, which is not known without /proc"};
  throw BackendMissing(fmt::format("there is no lockstep_{}.so in {}{}", file.name, fmt::join(names, ", "),
                                   kSanitized ? fmt::format("; {}", kNoPlugins) : ""),
                       file.build_advice + "; LOCKSTEP_PLUGIN_PATH names another folder");
}

}  // namespace lockstep
