#include <filesystem>
#include <fstream>
#include <string>

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/comm/backend.h"

#include "scratch_folder.h"

// Each case runs in a process of its own: a plugin, once opened, stays open.

namespace lockstep::comm {
namespace {

/// A folder of plugins that is searched instead of the real one.
class PluginFolder : public test::ScratchFolder {
 public:
  PluginFolder() : real_(std::getenv("LOCKSTEP_PLUGIN_PATH")) {
    ::setenv("LOCKSTEP_PLUGIN_PATH", path().c_str(), 1);
  }

  /// A copy of the real plugin that needs a library of another name, of the same length.
  void add_plugin_that_needs(const std::string& plugin, const std::string& needed,
                             const std::string& instead) const {
    std::string bytes = read_file(real_ / plugin);
    const size_t at = bytes.find(needed + '\0');
    ASSERT_NE(at, std::string::npos);
    bytes.replace(at, needed.size(), instead);
    std::ofstream(path() / plugin, std::ios::binary) << bytes;
  }

 private:
  std::filesystem::path real_;
};

void expect_unusable(const std::string& backend, const std::string& detail, const std::string& advice) {
  const BackendStatus status = backend_status(backend);
  EXPECT_FALSE(status.usable);
  EXPECT_NE(status.detail.find(detail), std::string::npos) << status.detail;
  EXPECT_NE(status.advice.find(advice), std::string::npos) << status.advice;
  EXPECT_THROW(connect(backend, {}), BackendMissing);
}

TEST(PluginTest, a_missing_plugin_says_what_to_install) {
  const PluginFolder folder;
  expect_unusable("gloo", "no lockstep_gloo.so in " + folder.path().string(), "libgloo0");
  expect_unusable("mpi", "no lockstep_mpi.so in " + folder.path().string(), "openmpi-bin libopenmpi3");
  EXPECT_TRUE(backend_status("thread").usable);
}

TEST(PluginTest, a_missing_gloo_library_says_what_to_install) {
  const PluginFolder folder;
  folder.add_plugin_that_needs("lockstep_gloo.so", "libgloo.so.0", "libgone.so.0");
  expect_unusable("gloo", "libgone.so.0: cannot open shared object file", "apt-get install libgloo0");
}

TEST(PluginTest, a_missing_mpi_library_says_what_to_install) {
  const PluginFolder folder;
  folder.add_plugin_that_needs("lockstep_mpi.so", "libmpi.so.40", "libgon.so.40");
  expect_unusable("mpi", "libgon.so.40: cannot open shared object file",
                  "apt-get install openmpi-bin libopenmpi3");
}

TEST(PluginTest, a_file_that_is_no_plugin_is_refused) {
  const PluginFolder folder;
  Dl_info some_library{};
  ASSERT_NE(::dladdr(reinterpret_cast<void*>(&::dlopen), &some_library), 0);
  std::filesystem::copy_file(some_library.dli_fname, folder.path() / "lockstep_gloo.so");
  expect_unusable("gloo", "is not a plugin of this version", "build and install");
}

TEST(PluginTest, the_plugins_of_this_build_are_usable) {
  for (const auto& [name, library] : {std::pair{"gloo", "Gloo "}, std::pair{"mpi", "Open MPI "}}) {
    const BackendStatus status = backend_status(name);
    EXPECT_TRUE(status.usable) << status.detail;
    EXPECT_EQ(status.detail.rfind(library, 0), 0U) << status.detail;
  }
  EXPECT_EQ(backend_names(), (std::vector<std::string>{"thread", "gloo", "mpi", "nccl"}));
}

TEST(PluginTest, a_missing_nccl_plugin_says_what_to_install) {
  const PluginFolder folder;
  expect_unusable("nccl", "no lockstep_nccl.so in " + folder.path().string(), "CUDA toolkit and NCCL");
}

#ifdef LOCKSTEP_HAS_NCCL
TEST(PluginTest, a_missing_nccl_library_says_what_to_install) {
  const PluginFolder folder;
  folder.add_plugin_that_needs("lockstep_nccl.so", "libnccl.so.2", "libgone.so.2");
  expect_unusable("nccl", "libgone.so.2: cannot open shared object file", "LD_LIBRARY_PATH");
}

TEST(PluginTest, nccl_is_usable_with_a_gpu_and_says_what_is_missing_without) {
  const BackendStatus status = backend_status("nccl");
  if (status.usable) {
    EXPECT_EQ(status.detail.rfind("NCCL 2.", 0), 0U) << status.detail;
    // No number of a GPU.
    EXPECT_THROW(connect("nccl", {}), ConfigError);
    return;
  }
  EXPECT_NE(status.detail.find("NVIDIA"), std::string::npos) << status.detail;
  EXPECT_NE(status.advice.find("driver"), std::string::npos) << status.advice;
  EXPECT_THROW(connect("nccl", {}), BackendMissing);
}

TEST(PluginTest, staging_a_gpus_memory_says_what_is_missing) {
  ConnectOptions options;
  options.cuda_device = 1000;
  if (backend_status("nccl").usable) {
    EXPECT_THROW(connect("gloo", options), ConfigError);
  } else {
    EXPECT_THROW(connect("gloo", options), BackendMissing);
  }
}
#endif

TEST(PluginTest, mpi_without_mpirun_says_how_to_start) {
  try {
    connect("mpi", {.rank = 0, .size = 2, .store = nullptr, .timeout = Duration(5), .interface = ""});
    FAIL() << "connected";
  } catch (const ConfigError& error) {
    EXPECT_NE(error.advice().find("mpirun -np 2"), std::string::npos) << error.advice();
  }
}

TEST(PluginTest, a_single_rank_needs_no_partner) {
  for (const char* backend : {"gloo", "mpi"}) {
    const auto comm = connect(backend, {});
    int32_t value = 5;
    comm->all_reduce(host_buffer(&value, 1), ReduceOp::kSum)->wait();
    EXPECT_EQ(value, 5);
    EXPECT_EQ(comm->backend(), backend);
  }
}

}  // namespace
}  // namespace lockstep::comm
