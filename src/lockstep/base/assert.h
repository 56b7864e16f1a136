#pragma once

/// LOCKSTEP_ASSERT(condition): an internal promise, checked in the dev and sanitizer builds only. What a user
/// or another process can get wrong is an Error, never an assertion.
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
