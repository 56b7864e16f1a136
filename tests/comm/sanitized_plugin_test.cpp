#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/backend.h"

namespace lockstep::comm {
namespace {

TEST(SanitizedPluginTest, backends_with_libraries_say_why_they_are_not_there) {
  for (const char* backend : {"gloo", "mpi"}) {
    const BackendStatus status = backend_status(backend);
    EXPECT_FALSE(status.usable);
    EXPECT_NE(status.detail.find("RTLD_DEEPBIND"), std::string::npos) << status.detail;
    EXPECT_THROW(connect(backend, {}), BackendMissing);
  }
}

}  // namespace
}  // namespace lockstep::comm
