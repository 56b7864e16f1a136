#include "lockstep/base/host_name.h"

#include <climits>

#include <unistd.h>

namespace lockstep {

std::string host_name() {
  // The system may leave a cut name without an end, so the last byte stays zero.
  char name[HOST_NAME_MAX + 1] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace lockstep
