#pragma once

/// LOCKSTEP_ASSERT(condition): an internal invariant, checked in the dev and sanitizer builds only. Mistakes
/// of users and of other processes are Errors, never assertions.
#if LOCKSTEP_ASSERTIONS
#include <cstdio>
#include <cstdlib>
#define LOCKSTEP_ASSERT(condition)                                                           \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      std::fprintf(stderr, "%s:%d: assertion failed: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                          \
    }                                                                                        \
  } while (false)
#else
#define LOCKSTEP_ASSERT(condition) static_cast<void>(0)
#endif
