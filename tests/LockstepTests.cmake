# lockstep_test(units_test SOURCES units_test.cpp KNOWS base [LABEL unit] [TIMEOUT seconds] [LINK ...]
#               [SLOW patterns] [PARTS n [ALONE patterns]])
#
# One GoogleTest program, one ctest entry per test case. The label defaults to `unit`, the time-out to 60 s, ten
# times as long under a sanitizer. SLOW: patterns of the cases that only `make test-all` runs, labelled `slow`. PARTS: so
# many ctest entries instead, each with every n-th case; for hundreds of short cases of a program that takes longer to
# load LibTorch than to run one of them. The time-out is a part's. ALONE: patterns of the cases that compare durations;
# they are a part of their own, which runs while no other test does, as those of SLOW are.

set(LOCKSTEP_TEST_TIMEOUT_S 60)
set(LOCKSTEP_TEST_TIMEOUT_FACTOR 1)
if(LOCKSTEP_SANITIZE)
  set(LOCKSTEP_TEST_TIMEOUT_S 600)
  set(LOCKSTEP_TEST_TIMEOUT_FACTOR 10)
endif()

# What tests are compiled with: the code under test is optimized, its tests need not be, a third less to compile.
set(LOCKSTEP_TEST_OPTIONS $<$<CONFIG:Release>:-O0>)
set(test_headers <fmt/format.h> <gmock/gmock.h> <gtest/gtest.h>)
set(test_links fmt::fmt GTest::gtest GTest::gmock)
lockstep_headers(lockstep_test_headers HEADERS ${test_headers} LINK ${test_links} OPTIONS ${LOCKSTEP_TEST_OPTIONS})
if(LOCKSTEP_TORCH_PARTS)
  lockstep_headers(lockstep_torch_test_headers
    HEADERS ${test_headers} <ATen/TensorOperators.h> <ATen/core/Tensor.h> <ATen/core/grad_mode.h> <ATen/ops/empty.h>
    LINK ${test_links} LibTorch::cpu
    OPTIONS ${LOCKSTEP_TEST_OPTIONS})
endif()

# One ctest entry of the program's cases that match a filter.
function(lockstep_test_part name part filter)
  add_test(NAME ${name}.${part} COMMAND ${name} --gtest_brief=1 --gtest_filter=${filter})
  set_tests_properties(${name}.${part} PROPERTIES TIMEOUT ${TEST_TIMEOUT} ${ARGN})
endfunction()

function(lockstep_test name)
  cmake_parse_arguments(TEST "" "LABEL;TIMEOUT;PARTS" "SOURCES;KNOWS;LINK;ALONE;SLOW" ${ARGN})
  if(NOT TEST_LABEL)
    set(TEST_LABEL unit)
  endif()
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 60)
  endif()
  math(EXPR TEST_TIMEOUT "${LOCKSTEP_TEST_TIMEOUT_FACTOR} * ${TEST_TIMEOUT}")
  add_executable(${name} ${TEST_SOURCES})
  lockstep_targets_of("${TEST_KNOWS}" known)
  target_link_libraries(${name} PRIVATE ${known} ${TEST_LINK} GTest::gtest GTest::gmock GTest::gtest_main lockstep_compiler)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_compile_options(${name} PRIVATE ${LOCKSTEP_TEST_OPTIONS})
  lockstep_brings_torch(torch ${known} ${TEST_LINK})
  if(torch)
    lockstep_use_headers(${name} lockstep_torch_test_headers)
  else()
    lockstep_use_headers(${name} lockstep_test_headers)
  endif()
  target_compile_definitions(${name} PRIVATE LOCKSTEP_GOLDEN="${CMAKE_SOURCE_DIR}/tests/golden")
  list(JOIN TEST_SLOW ":" slow)
  if(TEST_PARTS)
    list(JOIN TEST_ALONE ":" alone)
    math(EXPR last "${TEST_PARTS} - 1")
    foreach(index RANGE ${last})
      math(EXPR part "${index} + 1")
      lockstep_test_part(${name} ${part}_of_${TEST_PARTS} "-${alone}:${slow}" LABELS ${TEST_LABEL} COST 20)
      set_tests_properties(${name}.${part}_of_${TEST_PARTS} PROPERTIES
        ENVIRONMENT "GTEST_TOTAL_SHARDS=${TEST_PARTS};GTEST_SHARD_INDEX=${index}")
    endforeach()
    if(alone)
      lockstep_test_part(${name} alone "${alone}-${slow}" LABELS ${TEST_LABEL} RUN_SERIAL TRUE)
    endif()
    if(slow)
      lockstep_test_part(${name} slow "${slow}" LABELS slow TIMEOUT 1200)
    endif()
    return()
  endif()
  # The name of a parameter says more than its bytes.
  gtest_discover_tests(${name} NO_PRETTY_VALUES DISCOVERY_TIMEOUT 60 TEST_FILTER "-${slow}"
    PROPERTIES LABELS ${TEST_LABEL} TIMEOUT ${TEST_TIMEOUT})
  if(slow)
    gtest_discover_tests(${name} NO_PRETTY_VALUES DISCOVERY_TIMEOUT 60 TEST_FILTER "${slow}" TEST_LIST ${name}_slow
      PROPERTIES LABELS slow TIMEOUT ${TEST_TIMEOUT})
  endif()
endfunction()
