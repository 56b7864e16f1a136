#pragma once

#include <climits>
#include <string>

#include <unistd.h>

#include "lockstep/base/plain_text.h"

namespace lockstep {

/// Name of this host as the system has it, as plain_text(); empty where the system has none.
inline std::string host_name() {
  // The system may leave a cut name without an end, so the last byte stays zero.
  char name[HOST_NAME_MAX + 1] = "";
  ::gethostname(name, sizeof name - 1);
  return plain_text(name);
}

}  // namespace lockstep
