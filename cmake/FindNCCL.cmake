# NVIDIA's collectives as the imported target NCCL::nccl. Needs no GPU.
#
# Looked for in, first hit wins:
#   LOCKSTEP_NCCL  (CMake variable, else environment): a folder with include/ and lib/
#   the CUDA toolkit's folders (after find_package(CUDAToolkit))
#   the system
#
# The header decides the version.

if(NOT LOCKSTEP_NCCL AND DEFINED ENV{LOCKSTEP_NCCL})
  set(LOCKSTEP_NCCL $ENV{LOCKSTEP_NCCL})
endif()

find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${LOCKSTEP_NCCL} ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
# The Python package has the library with its number only.
find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${LOCKSTEP_NCCL} ${CUDAToolkit_LIBRARY_DIR}
             PATH_SUFFIXES lib lib64)

if(NCCL_INCLUDE_DIR)
  file(STRINGS ${NCCL_INCLUDE_DIR}/nccl.h _nccl_version_lines REGEX "define NCCL_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE "[^0-9;]" "" NCCL_VERSION "${_nccl_version_lines}")
  list(JOIN NCCL_VERSION "." NCCL_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NCCL
  REQUIRED_VARS NCCL_LIBRARY NCCL_INCLUDE_DIR VERSION_VAR NCCL_VERSION
  REASON_FAILURE_MESSAGE "the nccl backend is not built. LOCKSTEP_NCCL names a folder with NCCL's include and lib")

if(NCCL_FOUND AND NOT TARGET NCCL::nccl)
  add_library(NCCL::nccl UNKNOWN IMPORTED)
  set_target_properties(NCCL::nccl PROPERTIES IMPORTED_LOCATION ${NCCL_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${NCCL_INCLUDE_DIR})
endif()
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY)
