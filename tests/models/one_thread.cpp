#include <gtest/gtest.h>

#include <ATen/Parallel.h>

namespace {

/// ctest runs several of these programs at once; more threads than cores would only wait for each other.
class OneThread : public testing::Environment {
  void SetUp() override { at::set_num_threads(1); }
};

[[maybe_unused]] const testing::Environment* const kOneThread =
    testing::AddGlobalTestEnvironment(new OneThread);

}  // namespace
