# How every file of lockstep is compiled: warnings, assertions, sanitizers.

add_library(lockstep_compiler INTERFACE)
target_compile_options(lockstep_compiler INTERFACE
  -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wcast-align
  # Designated initializers leave out members that have a default on purpose.
  -Wno-missing-field-initializers
  # GCC 12 sees overlaps in std::string's operator+ that cannot be (GCC bug 105651, mended in 13).
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
  $<$<BOOL:${LOCKSTEP_WERROR}>:-Werror>)
# GCC collects its garbage a dozen times in a file that includes LibTorch; with less of that, a build takes a tenth less.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  string(APPEND CMAKE_CXX_FLAGS " --param=ggc-min-heapsize=1000000")
endif()
target_compile_definitions(lockstep_compiler INTERFACE
  $<$<BOOL:${LOCKSTEP_ASSERTIONS}>:LOCKSTEP_ASSERTIONS=1>)

if(LOCKSTEP_SANITIZE)
  # Instrumented code misleads GCC's uninitialized warnings (std::regex in its own headers, for one); the other
  # builds have them. clang tells of loops that it would vectorize if they were not instrumented.
  target_compile_options(lockstep_compiler INTERFACE -fsanitize=${LOCKSTEP_SANITIZE} -fno-omit-frame-pointer
                         $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized> $<$<CXX_COMPILER_ID:Clang>:-Wno-pass-failed>)
  target_link_options(lockstep_compiler INTERFACE -fsanitize=${LOCKSTEP_SANITIZE})
  if(LOCKSTEP_SANITIZE MATCHES "undefined")
    target_compile_options(lockstep_compiler INTERFACE -fno-sanitize-recover=undefined)
  endif()
endif()

if(LOCKSTEP_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "LOCKSTEP_FUZZ needs clang's libFuzzer: use the preset fuzz, or CXX=clang++")
  endif()
  # Numbers of a file that do not fit where they are put are no crash, and wrong all the same.
  target_compile_options(lockstep_compiler INTERFACE -fsanitize=fuzzer-no-link,float-cast-overflow
                         -fno-sanitize-recover=float-cast-overflow)
  target_link_options(lockstep_compiler INTERFACE -fsanitize=fuzzer-no-link,float-cast-overflow)
endif()

# Plugins are opened in a scope of their own. A data symbol that the program copies out of a shared library
# (a copy relocation: std::cout is one) would then exist twice, so the program is compiled like a library.
add_compile_options(-fPIC)

find_program(LOCKSTEP_CCACHE ccache)
if(LOCKSTEP_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${LOCKSTEP_CCACHE})
endif()
