#pragma once

#include <filesystem>
#include <string>

namespace lockstep::replica {

/// LibTorch's part for CUDA, which the program does not link: it is opened when a GPU is asked for, so that
/// the same program runs with a LibTorch that has no such part.
struct TorchCuda {
  int gpus = 0;
  /// "LibTorch 2.11.0 with CUDA 13.0, cuDNN 9.19.0".
  std::string versions;
};

/// The folder of the LibTorch that this process runs with.
std::filesystem::path torch_library_folder();

/// Opens libtorch_cuda.so of that folder; it stays open. Throws BackendMissing where it is not there or needs
/// something that is not there.
void open_torch_cuda_of(const std::filesystem::path& folder);

/// Opens it once per process and counts the GPUs. Thread-safe. Has to come before LibTorch is asked anything
/// about CUDA and before its first backward pass, where it settles for what it has. Throws BackendMissing
/// that says what is missing: that part of LibTorch, one of its libraries, a driver, a driver that is new
/// enough, a GPU.
const TorchCuda& torch_cuda();

}  // namespace lockstep::replica
