#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/units.h"
#include "lockstep/comm/backend.h"
#include "lockstep/comm/store.h"

#include "strategies/recording_communicator.h"
#include "strategies/trained_replica.h"

namespace lockstep {
namespace {

using testing::ElementsAre;

/// Messages of ddp's second step, one all-reduce per bucket, in MiB to two digits.
class DdpBucketTest : public testing::Test {
 protected:
  DdpBucketTest()
      : communicator_(comm::connect("thread", {.rank = 0, .size = 1, .store = &store_, .interface = ""})) {}

  std::vector<double> buckets_mib(const std::string& model, double cap_mb) {
    test::TrainedReplica replica = test::make_replica(
        {.model = model, .batch = 1, .image_size = 32, .strategy_options = {.bucket_mb = cap_mb}},
        &communicator_);
    replica.train(1);
    first_step_ = communicator_.all_reduce_bytes();
    communicator_.forget();
    replica.train(1);
    std::vector<double> mib;
    for (const size_t bytes : communicator_.all_reduce_bytes()) {
      mib.push_back(std::round(100 * static_cast<double>(bytes) / kMiB) / 100);
    }
    return mib;
  }

  comm::HashStore store_;
  test::RecordingCommunicator communicator_;
  std::vector<size_t> first_step_;
};

// The plans are what c10d makes in Python for the same networks and caps.
TEST_F(DdpBucketTest, resnet50_has_the_buckets_of_pytorch) {
  EXPECT_THAT(buckets_mib("resnet50", 25), ElementsAre(7.82, 30.04, 25.04, 25.32, 9.27));
}

TEST_F(DdpBucketTest, resnet101_has_the_buckets_of_pytorch) {
  EXPECT_THAT(buckets_mib("resnet101", 25),
              ElementsAre(7.82, 30.04, 25.04, 26.57, 25.57, 25.57, 25.14, 4.19));
}

TEST_F(DdpBucketTest, the_first_step_reduces_everything_at_once) {
  buckets_mib("resnet18", 25);
  EXPECT_THAT(first_step_, ElementsAre(11689512u * 4));
}

TEST_F(DdpBucketTest, a_smaller_cap_makes_more_buckets) {
  EXPECT_GT(buckets_mib("resnet18", 1).size(), buckets_mib("resnet18", 25).size());
}

}  // namespace
}  // namespace lockstep
