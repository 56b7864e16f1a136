# One static library per folder of src/lockstep, which sees only the folders that it names.
#
#   lockstep_part(comm SOURCES a.cpp b.cpp KNOWS base LINK fmt::fmt)
#
# The headers of a part are reachable through an include root of its own that holds this one part, so
# including the header of a part that is not in KNOWS (directly or through what it knows) fails to compile:
# an arrow in the wrong direction is a compile error, not a matter of review.

set(LOCKSTEP_INCLUDE_ROOTS ${CMAKE_BINARY_DIR}/parts)

function(lockstep_part name)
  cmake_parse_arguments(PART "" "" "SOURCES;KNOWS;LINK;PRIVATE_LINK" ${ARGN})
  set(root ${LOCKSTEP_INCLUDE_ROOTS}/${name})
  file(MAKE_DIRECTORY ${root}/lockstep)
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/src/lockstep/${name} ${root}/lockstep/${name} SYMBOLIC)

  add_library(lockstep_${name} STATIC ${PART_SOURCES})
  add_library(lockstep::${name} ALIAS lockstep_${name})
  target_include_directories(lockstep_${name} PUBLIC ${root})
  set(known ${PART_KNOWS})
  list(TRANSFORM known PREPEND lockstep::)
  target_link_libraries(lockstep_${name} PUBLIC ${known} ${PART_LINK} PRIVATE ${PART_PRIVATE_LINK} lockstep_compiler)
  if("${PART_LINK}" MATCHES "LibTorch" OR "${PART_KNOWS}" MATCHES "replica|kernels|models")
    # With Torch several files as one unit need more memory than a small machine has; these also share local names.
    set_target_properties(lockstep_${name} PROPERTIES UNITY_BUILD OFF)
  endif()
endfunction()

# All plugins that this build can make; the program is of little use without them.
add_custom_target(lockstep_plugins)

# A backend that needs a library of its own: a shared object beside the program, opened at run time.
function(lockstep_plugin name)
  cmake_parse_arguments(PLUGIN "" "" "SOURCES;KNOWS;LINK" ${ARGN})
  add_library(lockstep_${name} MODULE ${PLUGIN_SOURCES})
  set(known ${PLUGIN_KNOWS})
  list(TRANSFORM known PREPEND lockstep::)
  target_link_libraries(lockstep_${name} PRIVATE ${known} ${PLUGIN_LINK} lockstep_compiler)
  set_target_properties(lockstep_${name} PROPERTIES
    PREFIX "" OUTPUT_NAME lockstep_${name}
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/plugins)
  add_dependencies(lockstep_plugins lockstep_${name})
endfunction()
