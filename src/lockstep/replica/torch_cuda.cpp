#include "lockstep/replica/torch_cuda.h"

#include <mutex>
#include <optional>

#include <dlfcn.h>
#include <fmt/format.h>

#include <ATen/detail/CUDAHooksInterface.h>
#include <torch/headeronly/version.h>

#include "lockstep/base/error.h"
#include "lockstep/base/no_gpu.h"
#include "lockstep/base/plugin_file.h"

namespace lockstep::replica {
namespace {

constexpr const char* kTorchAdvice =
    "build lockstep with a LibTorch that has CUDA: 'make setup' installs one where nvidia-smi lists a GPU, "
    "and "
    "'LOCKSTEP_TORCH=PATH make setup' takes one that is there (a LibTorch folder, or a Python with torch)";

/// The functions of the CUDA runtime that count GPUs, from the copy that LibTorch loaded. Declared here
/// because their header comes with the CUDA toolkit, which is not needed to build lockstep. Names and numbers
/// are from NVIDIA's "CUDA Runtime API" reference.
class CudaRuntime {
 public:
  CudaRuntime() {
    find("cudaGetDeviceCount", count_);
    find("cudaDriverGetVersion", driver_version_);
    find("cudaRuntimeGetVersion", runtime_version_);
    find("cudaGetErrorName", error_name_);
    find("cudaGetErrorString", error_text_);
  }

  /// Throws as throw_no_gpu() does if there are none.
  int count_gpus() const {
    int count = 0;
    int error = count_(&count);
    if (error == kSuccess && count > 0) return count;
    // Success with a count of 0 means the same.
    if (error == kSuccess) error = kNoDevice;
    NoGpu found{.reason = fmt::format("{}: {}", error_name_(error), error_text_(error)),
                .driver_too_old = error == kInsufficientDriver,
                .runtime_of = fmt::format("LibTorch {}", TORCH_VERSION)};
    driver_version_(&found.driver_version);
    runtime_version_(&found.runtime_version);
    throw_no_gpu(found);
  }

 private:
  static constexpr int kSuccess = 0;
  static constexpr int kInsufficientDriver = 35;
  static constexpr int kNoDevice = 100;

  template <typename Function>
  static void find(const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
    if (function == nullptr) {
      throw BackendMissing(fmt::format("the CUDA runtime of LibTorch has no function {}", name),
                           kTorchAdvice);
    }
  }

  int (*count_)(int*) = nullptr;
  int (*driver_version_)(int*) = nullptr;
  int (*runtime_version_)(int*) = nullptr;
  const char* (*error_name_)(int) = nullptr;
  const char* (*error_text_)(int) = nullptr;
};

/// An addition to errors about missing libraries, so that users do not install gigabytes on a machine without
/// a GPU.
std::string and_no_driver() {
  // Never closed, because a driver's library may have started threads.
  const bool there = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) != nullptr;
  return there ? "" : ", and there is no NVIDIA driver on this machine";
}

std::string versions() {
  const at::CUDAHooksInterface& hooks = at::detail::getCUDAHooks();
  if (!hooks.hasCUDA()) {
    throw Error("LibTorch had settled for the CPU before its part for CUDA was opened",
                "Please report this with the command line.");
  }
  std::string text = fmt::format("LibTorch {} with CUDA {}", TORCH_VERSION,
                                 cuda_version_text(static_cast<int>(hooks.versionCUDART())));
  if (hooks.hasCuDNN()) {
    const long cudnn = hooks.versionRuntimeCuDNN();
    text += fmt::format(", cuDNN {}.{}.{}", cudnn / 10000, cudnn % 10000 / 100, cudnn % 100);
  }
  return text;
}

}  // namespace

std::filesystem::path torch_library_folder() {
  Dl_info found{};
  if (::dladdr(reinterpret_cast<void*>(&at::detail::getCUDAHooks), &found) == 0) {
    throw Error("the system's loader does not say where LibTorch is");
  }
  return std::filesystem::path(found.dli_fname).parent_path();
}

void open_torch_cuda_of(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "libtorch_cuda.so";
  std::error_code error;
  if (!std::filesystem::exists(file, error)) {
    throw BackendMissing(
        fmt::format("LibTorch {} in {} is for CPUs only{}", TORCH_VERSION, folder.string(), and_no_driver()),
        kTorchAdvice);
  }
  // RTLD_GLOBAL, as if the program had been linked with it, so that plugins find its symbols.
  if (::dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    const std::string reason = ::dlerror();
    throw BackendMissing(
        fmt::format("LibTorch's part for CUDA cannot be loaded{}: {}", and_no_driver(), reason),
        fmt::format("install what it needs beside it (pip install torch=={} without --no-deps), or {}",
                    TORCH_VERSION, kTorchAdvice));
  }
}

const TorchCuda& torch_cuda() {
  static std::mutex mutex;
  static std::optional<TorchCuda> opened;
  const std::lock_guard lock(mutex);
  if (!opened) {
    open_torch_cuda_of(torch_library_folder());
    const int gpus = CudaRuntime().count_gpus();
    opened = TorchCuda{gpus, versions()};
  }
  return *opened;
}

const CudaGraphPluginV1& open_cuda_graph() {
  const PluginFile file{
      .name = "cuda_graph",
      .purpose = "recording steps in a CUDA graph",
      .library = "LibTorch's part for CUDA",
      .install_advice = "use the LibTorch that lockstep was built with, or leave out --cuda-graph",
      .build_advice =
          "it is built where the CUDA toolkit is: install that, then build lockstep again, or "
          "leave out --cuda-graph",
      .open_flags = RTLD_NOW | RTLD_LOCAL};
  return *static_cast<const CudaGraphPluginV1*>(
      open_plugin_file(file, "lockstep_cuda_graph_plugin", kCudaGraphPluginAbiVersion));
}

}  // namespace lockstep::replica
