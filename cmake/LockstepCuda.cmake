# The language CUDA where the toolkit has its compiler, for every GPU from NVIDIA's A100 on: machine code for A100
# (sm_80) and H100 and H200 (sm_90), and an intermediate form from which the driver makes the code of later ones.

# By the environment, so that check_language tries it: a compiler that does not suit the system's C++ is none.
if(NOT DEFINED ENV{CUDACXX} AND EXISTS "${CUDAToolkit_NVCC_EXECUTABLE}")
  set(ENV{CUDACXX} ${CUDAToolkit_NVCC_EXECUTABLE})
endif()
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
endif()
# The library that LibTorch loads, so that a process has one copy of it.
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND NOT CMAKE_CUDA_HOST_COMPILER)
  set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
endif()
include(CheckLanguage)
check_language(CUDA)
if(CMAKE_CUDA_COMPILER)
  enable_language(CUDA)
  # The standard of CMAKE_CXX_STANDARD, for which CMake 3.25 does not know nvcc's option.
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  endif()
  set(CMAKE_CUDA_EXTENSIONS OFF)
endif()
