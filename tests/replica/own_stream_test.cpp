#include "lockstep/replica/own_stream.h"

#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::replica {
namespace {

/// LibTorch's pool: 32 streams per device, in turn.
class TurningPool {
 public:
  explicit TurningPool(c10::DeviceIndex device) : device_(c10::DeviceType::CUDA, device) {}

  c10::Stream take(StreamPool& from) {
    return from.take(device_, [this] {
      ++drawn_;
      return c10::Stream(c10::Stream::UNSAFE, device_, 1 + next_++ % 32);
    });
  }
  int drawn() const { return drawn_; }

 private:
  c10::Device device_;
  int next_ = 0;
  int drawn_ = 0;
};

TEST(OwnStreamTest, rows_use_the_same_streams_again) {
  StreamPool pool;
  TurningPool torch(0);
  const c10::Stream training = torch.take(pool);
  std::set<c10::StreamId> sides;
  for (int row = 0; row < 100; ++row) {
    const c10::Stream side = torch.take(pool);
    const c10::Stream input = torch.take(pool);
    ASSERT_NE(side, training) << row;
    ASSERT_NE(input, training) << row;
    ASSERT_NE(input, side) << row;
    sides.insert({side.id(), input.id()});
    pool.give_back(input);
    pool.give_back(side);
  }
  EXPECT_EQ(torch.drawn(), 3);
  EXPECT_EQ(sides.size(), 2u);
}

TEST(OwnStreamTest, a_stream_in_use_is_not_handed_out_again_before_all_are) {
  StreamPool pool;
  TurningPool torch(0);
  std::vector<c10::Stream> all;
  for (int i = 0; i < 32; ++i) {
    // Others draw from LibTorch as well, so that its turn comes round early.
    if (i % 3 == 0) torch.take(pool);
    all.push_back(torch.take(pool));
  }
  std::set<c10::StreamId> different;
  for (const c10::Stream stream : all) different.insert(stream.id());
  EXPECT_GE(different.size(), 21u);
  // More than there are: shared, and idle only when both have given it back.
  const c10::Stream shared = torch.take(pool);
  pool.give_back(shared);
  EXPECT_NE(torch.take(pool), shared);
}

TEST(OwnStreamTest, every_device_has_its_own) {
  StreamPool pool;
  TurningPool first(0), second(1);
  pool.give_back(first.take(pool));
  EXPECT_EQ(second.take(pool).device_index(), 1);
  EXPECT_EQ(first.take(pool).device_index(), 0);
  EXPECT_EQ(first.drawn(), 1);
}

}  // namespace
}  // namespace lockstep::replica
