# lockstep_test(units_test SOURCES units_test.cpp KNOWS base [LABEL unit] [TIMEOUT seconds] [PARTS n [ALONE suites]]
#               [LINK ...])
#
# One GoogleTest program, one ctest entry per test case. The label defaults to `unit`, the time-out to 60 s, ten
# times as long under a sanitizer. PARTS: so many ctest entries instead, each with every n-th case; for hundreds of
# short cases of a program that takes longer to load LibTorch than to run one of them. The time-out is a part's. ALONE:
# patterns of the cases that compare durations; they are a part of their own, which runs while no other test does.

set(LOCKSTEP_TEST_TIMEOUT_S 60)
set(LOCKSTEP_TEST_TIMEOUT_FACTOR 1)
if(LOCKSTEP_SANITIZE)
  set(LOCKSTEP_TEST_TIMEOUT_S 600)
  set(LOCKSTEP_TEST_TIMEOUT_FACTOR 10)
endif()

function(lockstep_test name)
  cmake_parse_arguments(TEST "" "LABEL;TIMEOUT;PARTS" "SOURCES;KNOWS;LINK;ALONE" ${ARGN})
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
  # The code under test is optimized, its tests need not be: a fifth less to compile.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  target_compile_definitions(${name} PRIVATE LOCKSTEP_GOLDEN="${CMAKE_SOURCE_DIR}/tests/golden")
  if(TEST_PARTS)
    list(JOIN TEST_ALONE ":" alone)
    foreach(part RANGE 1 ${TEST_PARTS})
      math(EXPR index "${part} - 1")
      add_test(NAME ${name}.${part}_of_${TEST_PARTS} COMMAND ${name})
      set_tests_properties(${name}.${part}_of_${TEST_PARTS} PROPERTIES
        LABELS ${TEST_LABEL} TIMEOUT ${TEST_TIMEOUT} COST 20
        ENVIRONMENT "GTEST_TOTAL_SHARDS=${TEST_PARTS};GTEST_SHARD_INDEX=${index};GTEST_BRIEF=1;GTEST_FILTER=-${alone}")
    endforeach()
    if(alone)
      add_test(NAME ${name}.alone COMMAND ${name})
      set_tests_properties(${name}.alone PROPERTIES
        LABELS ${TEST_LABEL} TIMEOUT ${TEST_TIMEOUT} RUN_SERIAL TRUE ENVIRONMENT "GTEST_BRIEF=1;GTEST_FILTER=${alone}")
    endif()
    return()
  endif()
  # The name of a parameter says more than its bytes.
  gtest_discover_tests(${name} NO_PRETTY_VALUES DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS ${TEST_LABEL} TIMEOUT ${TEST_TIMEOUT})
endfunction()
