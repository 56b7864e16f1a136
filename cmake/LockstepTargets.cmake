# One static library per folder of src/lockstep, which sees only the folders that it names.
#
#   lockstep_part(comm SOURCES a.cpp b.cpp KNOWS base LINK fmt::fmt)
#   lockstep_part(results/tables SOURCES a.cpp KNOWS results/record)
#
# The headers of a part are reachable through an include root of its own that holds this one part, so
# including the header of a part that is not in KNOWS (directly or through what it knows) fails to compile:
# an arrow in the wrong direction is a compile error, not a matter of review.

set(LOCKSTEP_INCLUDE_ROOTS ${CMAKE_BINARY_DIR}/parts)

# Parts that run before and after the steps, not in them. A release build optimizes them less: they compile in two
# thirds of the time.
set(LOCKSTEP_COLD_PARTS launch links network_file plots predict/curves predict/jobs results/files results/record results/tables topology
    train/job train/rows train/training train/verify)
function(lockstep_cold target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# Targets of parts: results/tables is lockstep::results_tables.
function(lockstep_targets_of parts output)
  string(REPLACE "/" "_" targets "${parts}")
  list(TRANSFORM targets PREPEND lockstep::)
  set(${output} ${targets} PARENT_SCOPE)
endfunction()

function(lockstep_part name)
  cmake_parse_arguments(PART "" "" "SOURCES;KNOWS;LINK;PRIVATE_LINK" ${ARGN})
  string(REPLACE "/" "_" target ${name})
  set(root ${LOCKSTEP_INCLUDE_ROOTS}/${target})
  cmake_path(GET name PARENT_PATH floor)
  file(MAKE_DIRECTORY ${root}/lockstep/${floor})
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/src/lockstep/${name} ${root}/lockstep/${name} SYMBOLIC)

  add_library(lockstep_${target} STATIC ${PART_SOURCES})
  add_library(lockstep::${target} ALIAS lockstep_${target})
  target_include_directories(lockstep_${target} PUBLIC ${root})
  lockstep_targets_of("${PART_KNOWS}" known)
  target_link_libraries(lockstep_${target} PUBLIC ${known} ${PART_LINK} PRIVATE ${PART_PRIVATE_LINK} lockstep_compiler)
  lockstep_brings_torch(torch ${known} ${PART_LINK})
  if(torch)
    lockstep_use_headers(lockstep_${target} lockstep_torch_headers)
  endif()
  if(name IN_LIST LOCKSTEP_COLD_PARTS)
    lockstep_cold(lockstep_${target})
  endif()
endfunction()

# All plugins that this build can make; the program is of little use without them.
add_custom_target(lockstep_plugins)

# A backend that needs a library of its own: a shared object beside the program, opened at run time. OUTPUT: its name,
# where that is a part's already.
function(lockstep_plugin name)
  cmake_parse_arguments(PLUGIN "" "OUTPUT" "SOURCES;KNOWS;LINK" ${ARGN})
  if(NOT PLUGIN_OUTPUT)
    set(PLUGIN_OUTPUT ${name})
  endif()
  add_library(lockstep_${name} MODULE ${PLUGIN_SOURCES})
  lockstep_targets_of("${PLUGIN_KNOWS}" known)
  target_link_libraries(lockstep_${name} PRIVATE ${known} ${PLUGIN_LINK} lockstep_compiler)
  set_target_properties(lockstep_${name} PROPERTIES
    PREFIX "" OUTPUT_NAME lockstep_${PLUGIN_OUTPUT}
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/plugins)
  add_dependencies(lockstep_plugins lockstep_${name})
endfunction()
