#include "lockstep/collectives/test_values.h"

#include <algorithm>
#include <cstring>

#include "lockstep/base/half_float.h"

namespace lockstep::collectives {
namespace {

constexpr int kLargestPeriod = 113;
constexpr size_t kPeriods = 64;

template <typename T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string element(comm::DType dtype, int value) {
  switch (dtype) {
    case comm::DType::kFloat64:
      return bytes_of(double(value));
    case comm::DType::kFloat16:
      return bytes_of(float_to_float16(float(value)));
    case comm::DType::kBFloat16:
      return bytes_of(float_to_bfloat16(float(value)));
    case comm::DType::kUInt8:
      return bytes_of(uint8_t(value));
    case comm::DType::kInt32:
      return bytes_of(int32_t(value));
    case comm::DType::kInt64:
      return bytes_of(int64_t(value));
    case comm::DType::kFloat32:
      break;
  }
  return bytes_of(float(value));
}

}  // namespace

TestValues::TestValues(comm::DType dtype, int ranks, int rank)
    : width_(comm::element_bytes(dtype)), period_(size_t(std::clamp(255 / ranks, 2, kLargestPeriod))) {
  const auto value_of = [&](int of_rank, size_t i) { return int((size_t(of_rank) * 31 + i) % period_); };
  for (size_t i = 0; i < kPeriods * period_; ++i) {
    int value = rank < 0 ? 0 : value_of(rank, i);
    for (int each = 0; rank < 0 && each < ranks; ++each) value += value_of(each, i);
    tile_ += element(dtype, value);
  }
}

template <typename Visit>
void TestValues::in_runs(size_t first, size_t count, Visit visit) const {
  for (size_t done = 0; done < count;) {
    const size_t begin = (first + done) % period_;
    const size_t run = std::min(count - done, kPeriods * period_ - begin);
    visit(done * width_, begin * width_, run * width_);
    done += run;
  }
}

void TestValues::fill(void* data, size_t first, size_t count) const {
  in_runs(first, count, [&](size_t place, size_t in_tile, size_t bytes) {
    std::memcpy(static_cast<char*>(data) + place, tile_.data() + in_tile, bytes);
  });
}

int64_t TestValues::count_wrong(const void* data, size_t first, size_t count) const {
  int64_t wrong = 0;
  in_runs(first, count, [&](size_t place, size_t in_tile, size_t bytes) {
    const char* found = static_cast<const char*>(data) + place;
    const char* expected = tile_.data() + in_tile;
    if (std::memcmp(found, expected, bytes) == 0) return;
    for (size_t i = 0; i < bytes; i += width_) wrong += std::memcmp(found + i, expected + i, width_) != 0;
  });
  return wrong;
}

}  // namespace lockstep::collectives
