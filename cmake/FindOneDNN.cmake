# oneDNN on GNU's OpenMP as the imported target OneDNN::dnnl.
#
# Looked for in, first hit wins:
#   LOCKSTEP_ONEDNN  (CMake variable, else environment): a folder with include/ and lib/
#   .venv-onednn in the source folder, which `make setup` fills
#   the system
#
# The header decides the version; the library of another one is refused when the program asks for the kernels.

if(NOT LOCKSTEP_ONEDNN AND DEFINED ENV{LOCKSTEP_ONEDNN})
  set(LOCKSTEP_ONEDNN $ENV{LOCKSTEP_ONEDNN})
endif()

set(_onednn_hints ${LOCKSTEP_ONEDNN} ${CMAKE_SOURCE_DIR}/.venv-onednn)
find_path(OneDNN_INCLUDE_DIR oneapi/dnnl/dnnl.hpp HINTS ${_onednn_hints} PATH_SUFFIXES include)
find_library(OneDNN_LIBRARY NAMES libdnnl.so.3 dnnl HINTS ${_onednn_hints} PATH_SUFFIXES lib)

if(OneDNN_INCLUDE_DIR)
  file(STRINGS ${OneDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h _onednn_version_lines
       REGEX "define DNNL_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE "[^0-9;]" "" OneDNN_VERSION "${_onednn_version_lines}")
  list(JOIN OneDNN_VERSION "." OneDNN_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OneDNN
  REQUIRED_VARS OneDNN_LIBRARY OneDNN_INCLUDE_DIR VERSION_VAR OneDNN_VERSION
  REASON_FAILURE_MESSAGE
  "lockstep is built without its fused kernels. Run 'make setup', or set LOCKSTEP_ONEDNN to a folder with oneDNN 3")

if(OneDNN_FOUND AND NOT TARGET OneDNN::dnnl)
  get_filename_component(_onednn_folder ${OneDNN_LIBRARY} DIRECTORY)
  add_library(OneDNN::dnnl INTERFACE IMPORTED)
  target_include_directories(OneDNN::dnnl SYSTEM INTERFACE ${OneDNN_INCLUDE_DIR})
  target_link_libraries(OneDNN::dnnl INTERFACE ${OneDNN_LIBRARY})
  target_link_options(OneDNN::dnnl INTERFACE "LINKER:-rpath,${_onednn_folder}")
endif()
