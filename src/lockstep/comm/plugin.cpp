#include "lockstep/comm/plugin.h"

#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

/// What a plugin needs of the system.
struct Library {
  const char* name;
  const char* package;
  const char* development_package;
};

Library library_of(std::string_view backend) {
  if (backend == "mpi") return {"Open MPI", "openmpi-bin libopenmpi3", "libopenmpi-dev"};
  return {"Gloo", "libgloo0", "libgloo-dev"};
}

int open_flags(std::string_view backend) {
  // LibTorch exports a newer Gloo of its own under the same names: ours has to find Debian's first.
  if (backend == "gloo") return RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;
  // Open MPI's own plugins do not name libmpi as a library they need: they find it only in the global scope.
  return RTLD_NOW | RTLD_GLOBAL;
}

const PluginV1& open_file(const std::string& backend, const std::filesystem::path& file) {
  const Library library = library_of(backend);
  void* handle = ::dlopen(file.c_str(), open_flags(backend));
  if (handle == nullptr) {
    throw BackendMissing(fmt::format("the {} backend needs {}, which cannot be loaded: {}", backend,
                                     library.name, ::dlerror()),
                         fmt::format("install it: apt-get install {}", library.package));
  }
  const auto entry = reinterpret_cast<PluginEntry>(::dlsym(handle, "lockstep_backend_plugin"));
  const PluginV1* plugin = entry == nullptr ? nullptr : entry();
  if (plugin == nullptr || plugin->abi_version != kPluginAbiVersion) {
    throw BackendMissing(fmt::format("{} is not a plugin of this version of lockstep", file.string()),
                         "build and install the program and its plugins together");
  }
  return *plugin;
}

}  // namespace

std::vector<std::filesystem::path> plugin_folders() {
  std::vector<std::filesystem::path> folders;
  if (const char* path = std::getenv("LOCKSTEP_PLUGIN_PATH"); path != nullptr && *path != '\0') {
    std::string_view rest = path;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find(':'), rest.size());
      if (end > 0) folders.emplace_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return folders;
  }
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) {
    folders.push_back(program.parent_path() / "plugins");
    folders.push_back(program.parent_path().parent_path() / "lib" / "lockstep");
  }
  return folders;
}

const PluginV1& open_plugin(const std::string& backend) {
  if (kSanitized) {
    throw BackendMissing(
        fmt::format(
            "the {} backend is not in sanitizer builds: the sanitizers refuse RTLD_DEEPBIND, which keeps its "
            "library apart from LibTorch's copy, and cannot see into the libraries",
            backend),
        "use the thread backend, or a build without sanitizers");
  }
  static std::mutex mutex;
  static std::map<std::string, const PluginV1*> opened;
  std::lock_guard lock(mutex);
  if (const auto found = opened.find(backend); found != opened.end()) return *found->second;

  const std::vector<std::filesystem::path> folders = plugin_folders();
  std::vector<std::string> names;
  for (const std::filesystem::path& folder : folders) {
    const std::filesystem::path file = folder / fmt::format("lockstep_{}.so", backend);
    names.push_back(folder.string());
    std::error_code error;
    if (!std::filesystem::exists(file, error)) continue;
    const PluginV1& plugin = open_file(backend, file);
    opened[backend] = &plugin;
    return plugin;
  }
  const Library library = library_of(backend);
  throw BackendMissing(
      fmt::format("there is no lockstep_{}.so in {}", backend, fmt::join(names, ", ")),
      fmt::format(
          "the {} backend needs {}: apt-get install {} {}, then build lockstep again; LOCKSTEP_PLUGIN_PATH "
          "names another folder",
          backend, library.name, library.package, library.development_package));
}

}  // namespace lockstep::comm
