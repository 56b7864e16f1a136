# The CPU part of LibTorch as the imported target LibTorch::cpu, and where it has one, with its headers, the CUDA part
# as LibTorch::cuda.
#
# Looked for in, first hit wins:
#   LOCKSTEP_TORCH (CMake variable, else environment): a LibTorch folder, a Python interpreter that has torch,
#                  or a virtual environment with such an interpreter
#   .venv in the source folder, which `make setup` fills
#
# The find_package(Torch) of the wheel itself wants a full CUDA toolkit even for CPU use; this does not.
# Its include folder carries other versions of fmt and oneDNN, hence -idirafter: the system's come first.

if(NOT LOCKSTEP_TORCH AND DEFINED ENV{LOCKSTEP_TORCH})
  set(LOCKSTEP_TORCH $ENV{LOCKSTEP_TORCH})
endif()

set(_torch_from "LOCKSTEP_TORCH")
if(NOT LOCKSTEP_TORCH)
  set(LOCKSTEP_TORCH ${CMAKE_SOURCE_DIR}/.venv)
  set(_torch_from "make setup")
endif()

include(${CMAKE_CURRENT_LIST_DIR}/LocateLibTorch.cmake)
lockstep_locate_libtorch("${LOCKSTEP_TORCH}" LibTorch_ROOT_DIR LibTorch_VERSION)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch REQUIRED_VARS LibTorch_ROOT_DIR VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE
  "looked for it through ${_torch_from} at '${LOCKSTEP_TORCH}'. Run 'make setup', or set LOCKSTEP_TORCH to a LibTorch folder or to a Python interpreter with torch 2.11 or newer")

if(LibTorch_FOUND AND NOT TARGET LibTorch::cpu)
  set(_lib ${LibTorch_ROOT_DIR}/lib)
  # libtorch_cpu.so of the CUDA wheel needs libcudart and libcupti, which lie in wheels of their own.
  set(LibTorch_RPATH ${_lib})
  get_filename_component(_site ${LibTorch_ROOT_DIR} DIRECTORY)
  if(IS_DIRECTORY ${_site}/nvidia/cu13/lib)
    list(APPEND LibTorch_RPATH ${_site}/nvidia/cu13/lib)
  endif()

  add_library(LibTorch::cpu INTERFACE IMPORTED)
  target_compile_options(LibTorch::cpu INTERFACE
    "SHELL:-idirafter ${LibTorch_ROOT_DIR}/include"
    "SHELL:-idirafter ${LibTorch_ROOT_DIR}/include/torch/csrc/api/include")
  target_compile_definitions(LibTorch::cpu INTERFACE USE_C10D USE_DISTRIBUTED)
  set(_rpath_flags)
  foreach(dir IN LISTS LibTorch_RPATH)
    list(APPEND _rpath_flags "LINKER:-rpath,${dir}" "LINKER:-rpath-link,${dir}")
  endforeach()
  target_link_options(LibTorch::cpu INTERFACE ${_rpath_flags} "LINKER:--allow-shlib-undefined")
  target_link_libraries(LibTorch::cpu INTERFACE
    "-Wl,--no-as-needed" ${_lib}/libtorch_cpu.so ${_lib}/libc10.so "-Wl,--as-needed")
  # Of LibTorch's builds without CUDA some have these headers, but not the one that was generated for CUDA.
  if(EXISTS ${_lib}/libtorch_cuda.so AND EXISTS ${LibTorch_ROOT_DIR}/include/c10/cuda/impl/cuda_cmake_macros.h)
    add_library(LibTorch::cuda INTERFACE IMPORTED)
    target_link_libraries(LibTorch::cuda INTERFACE LibTorch::cpu ${_lib}/libtorch_cuda.so ${_lib}/libc10_cuda.so)
  endif()
  message(STATUS "LibTorch ${LibTorch_VERSION} in ${LibTorch_ROOT_DIR}")
endif()
