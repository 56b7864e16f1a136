#include "lockstep/launch/local_listeners.h"

#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "lockstep/base/plugin_file.h"

namespace lockstep::launch {

void keep_listeners_local() {
  constexpr std::pair<const char*, const char*> kVariables[] = {
      // Excluded by name, because the component for shared memory has another name in every version.
      {"OMPI_MCA_btl", "^tcp,openib,ofi,uct,usnic"},
      {"OMPI_MCA_pml", "ob1"},
      {"UCX_TLS", "self,sm"},
      {"NCCL_SOCKET_IFNAME", "lo"},
  };
  for (const auto& [name, value] : kVariables) ::setenv(name, value, 0);
}

std::vector<std::pair<std::string, std::string>> local_mpirun_variables() {
  for (const std::filesystem::path& folder : plugin_folders()) {
    const std::filesystem::path plugin = folder / "lockstep_loopback.so";
    // LD_PRELOAD cannot name a path with a blank or a colon.
    if (!std::filesystem::exists(plugin) || plugin.string().find_first_of(" :") != std::string::npos)
      continue;
    const char* before = std::getenv("LD_PRELOAD");
    const std::string more = before == nullptr || *before == '\0' ? "" : fmt::format(":{}", before);
    return {{"LD_PRELOAD", plugin.string() + more}, {"OMPI_MCA_oob_tcp_if_include", "lo"}};
  }
  return {};
}

}  // namespace lockstep::launch
