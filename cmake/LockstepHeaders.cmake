# Headers of other projects that many files include, parsed once for all of them: where a small file with LibTorch's
# tensor takes 20 seconds to compile, they are 12 of them. Only in a unity build; elsewhere a file that forgets an
# include shall not compile.
#
#   lockstep_headers(NAME HEADERS <a.h> <b.h> LINK targets [OPTIONS -O0])
#   lockstep_use_headers(target NAME)

function(lockstep_headers name)
  # ccache would keep nothing of what is compiled with them.
  if(NOT CMAKE_UNITY_BUILD OR LOCKSTEP_CCACHE)
    return()
  endif()
  cmake_parse_arguments(HEADERS "" "" "HEADERS;LINK;OPTIONS" ${ARGN})
  set(empty ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  file(TOUCH ${empty})
  add_library(${name} OBJECT ${empty})
  target_link_libraries(${name} PRIVATE ${HEADERS_LINK} lockstep_compiler)
  target_compile_options(${name} PRIVATE ${HEADERS_OPTIONS})
  target_precompile_headers(${name} PRIVATE ${HEADERS_HEADERS})
endfunction()

function(lockstep_use_headers target name)
  if(TARGET ${name})
    target_precompile_headers(${target} REUSE_FROM ${name})
  endif()
endfunction()

# Whether one of these targets, or one that it passes on, is LibTorch.
function(lockstep_brings_torch output)
  set(${output} FALSE PARENT_SCOPE)
  foreach(library IN LISTS ARGN)
    set(found FALSE)
    if(library STREQUAL LibTorch::cpu)
      set(found TRUE)
    elseif(TARGET ${library})
      get_target_property(passed_on ${library} INTERFACE_LINK_LIBRARIES)
      lockstep_brings_torch(found ${passed_on})
    endif()
    if(found)
      set(${output} TRUE PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()
