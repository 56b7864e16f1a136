#include "lockstep/replica/torch_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ops/ones.h>

#include "lockstep/base/error.h"

namespace lockstep::replica {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// As LibTorch's allocator words it.
constexpr const char* kOutOfMemory =
    "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 139.80 GiB of which 9.50 "
    "GiB is free. Including non-PyTorch memory, this process has 130.30 GiB memory in use. Of the allocated "
    "memory 128.00 GiB is allocated by PyTorch, and 1.10 GiB is reserved by PyTorch but unallocated. If "
    "reserved but unallocated memory is large try setting PYTORCH_ALLOC_CONF=expandable_segments:True to "
    "avoid "
    "fragmentation.  See documentation for Memory Management";

Error thrown_by(const std::function<void()>& body) {
  try {
    with_plain_errors(body);
  } catch (const Error& error) {
    return error;
  }
  return Error("nothing was thrown");
}

TEST(TorchErrorTest, a_stack_trace_is_left_out) {
  const Error error = thrown_by([] { at::ones({2, 3}).matmul(at::ones({2, 3})); });
  EXPECT_THAT(error.what(), StartsWith("mat1 and mat2 shapes cannot be multiplied"));
  EXPECT_THAT(error.what(), Not(HasSubstr("Exception raised from")));
}

TEST(TorchErrorTest, the_name_of_an_exception_is_left_out) {
  const std::runtime_error json("[json.exception.out_of_range.403] key 'graph_module' not found");
  EXPECT_EQ(first_line(json), "key 'graph_module' not found");
}

TEST(TorchErrorTest, memory_that_ran_out_says_what_was_asked_for_and_what_is_there) {
  const Error error = thrown_by([] { C10_THROW_ERROR(OutOfMemoryError, kOutOfMemory); });
  EXPECT_THAT(error.what(), HasSubstr("Tried to allocate 20.00 GiB"));
  EXPECT_THAT(error.what(), HasSubstr("of which 9.50 GiB is free"));
  EXPECT_THAT(error.what(), Not(HasSubstr("PYTORCH_ALLOC_CONF")));
  EXPECT_THAT(error.advice(), HasSubstr("--batch"));
}

TEST(TorchErrorTest, other_exceptions_and_results_come_out_as_they_are) {
  EXPECT_EQ(with_plain_errors([] { return 7; }), 7);
  EXPECT_THROW(with_plain_errors([] { throw ConfigError("a"); }), ConfigError);
}

}  // namespace
}  // namespace lockstep::replica
