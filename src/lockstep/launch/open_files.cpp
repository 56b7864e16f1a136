#include "lockstep/launch/open_files.h"

#include <algorithm>

#include <sys/resource.h>

namespace lockstep::launch {
namespace {

/// More than a job can use. Some programs that are started close every number up to the limit, which may be
/// billions.
constexpr rlim_t kMostFiles = 1 << 20;

}  // namespace

int64_t raise_open_files_limit() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return kMostFiles;
  const rlim_t wanted = std::min(files.rlim_max, kMostFiles);
  if (files.rlim_cur < wanted) {
    const rlimit raised{wanted, files.rlim_max};
    if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) files = raised;
  }
  return static_cast<int64_t>(std::min(files.rlim_cur, kMostFiles));
}

}  // namespace lockstep::launch
