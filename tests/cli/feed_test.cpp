#include <chrono>
#include <csignal>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "lockstep/base/clock.h"
#include "lockstep/feed/receiver.h"
#include "lockstep/results/files/record_json.h"

#include "cli/program.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::Field;
using testing::HasSubstr;

std::vector<std::string> bench_with(const std::vector<std::string>& more) {
  std::vector<std::string> command{"lockstep",     "bench", "--model",  "trivial", "--image-size", "32",
                                   "--threads",    "1",     "--warmup", "2",       "--steps",      "20",
                                   "--no-controls"};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

auto names(const std::vector<const char*>& wanted) {
  std::vector<testing::Matcher<const results::InputQueue&>> all;
  for (const char* name : wanted) all.push_back(Field(&results::InputQueue::name, name));
  return testing::ElementsAreArray(all);
}

TEST(InputTest, host_and_queue_train_and_say_how_their_queues_were_used) {
  const test::ScratchFolder folder;
  for (const std::string input : {"host", "queue"}) {
    const test::Finished bench =
        test::run(bench_with({"--input", input, "--ranks", "2", "--json", folder.path(input)}));
    ASSERT_EQ(bench.exit_code, 0) << bench.error;
    EXPECT_THAT(bench.output, HasSubstr("Input " + input + ": trivial"));
    const results::RunRecord record = results::read_record(folder.path(input));
    const results::Run& run = record.runs.front();
    const std::vector<const char*> queues =
        input == "host" ? std::vector<const char*>{"staged"} : std::vector<const char*>{"made", "staged"};
    EXPECT_THAT(run.input_queues, names(queues));
    // 2 ranks times 22 steps, without the batch of the first step.
    EXPECT_EQ(run.input_queues.back().batches, 2 * 21);
    EXPECT_GT(run.input_queues.back().images_per_s, 0);
    EXPECT_GT(run.input_queues.back().gb_per_s, 0);
    EXPECT_TRUE(run.input_queues.back().producer_s);
  }
}

TEST(InputTest, flags_that_are_of_no_use_and_addresses_that_are_none_are_refused) {
  const auto refusal = [](const std::vector<std::string>& more) {
    const test::Finished bench = test::run(bench_with(more));
    EXPECT_EQ(bench.exit_code, 2) << bench.error;
    return bench.error;
  };
  EXPECT_THAT(refusal({"--prefetch", "3"}),
              AllOf(HasSubstr("--prefetch 3 is of no use to the input 'device'"),
                    HasSubstr("Add --input queue, dataset or zmq.")));
  EXPECT_THAT(refusal({"--input", "zmq", "--input-workers", "2", "--address", "ipc:///tmp/x"}),
              HasSubstr("--input-workers 2 is of no use to the input 'zmq'"));
  EXPECT_THAT(refusal({"--input", "queue", "--prefetch", "0"}),
              HasSubstr("--prefetch takes a whole number from 1 to 1000, not '0'"));
  EXPECT_THAT(refusal({"--input", "zmq"}), HasSubstr("needs --address"));
  EXPECT_THAT(refusal({"--input", "zmq", "--address", "/tmp/x"}), HasSubstr("neither ipc:// nor tcp://"));
}

TEST(FeedTest, feeds_every_rank_of_every_row_until_it_is_ended) {
  const test::ScratchFolder folder;
  const std::string address = "ipc://" + folder.path("batches");
  test::Program feed({"lockstep", "feed", "--address", address, "--ranks", "2", "--batch", "4",
                      "--image-size", "32", "--classes", "10"});
  const test::Finished bench =
      test::run(bench_with({"--input", "zmq", "--address", address, "--ranks", "1,2", "--batch", "4",
                            "--prefetch", "3", "--breakdown", "--json", folder.path("a.json")}));
  ASSERT_EQ(bench.exit_code, 0) << bench.error;
  feed.signal(SIGTERM);
  EXPECT_EQ(feed.wait(), 143) << feed.error();
  EXPECT_THAT(feed.output(), HasSubstr("batches of 4 images"));
  const results::RunRecord record = results::read_record(folder.path("a.json"));
  ASSERT_EQ(record.runs.size(), 2U);
  for (const results::Run& run : record.runs) {
    EXPECT_THAT(run.input_queues, names({"received", "staged"}));
    EXPECT_EQ(run.input_queues.front().capacity, 3);
    EXPECT_EQ(run.input_options, "--prefetch 3");
  }
}

TEST(FeedTest, ends_well_once_all_ranks_have_left_for_good) {
  const test::ScratchFolder folder;
  const std::string address = "ipc://" + folder.path("batches");
  test::Program feed({"lockstep", "feed", "--address", address, "--batch", "4", "--image-size", "32",
                      "--classes", "10", "--timeout", "2"});
  const test::Finished bench =
      test::run(bench_with({"--input", "zmq", "--address", address, "--ranks", "1", "--batch", "4"}));
  ASSERT_EQ(bench.exit_code, 0) << bench.error;
  EXPECT_EQ(feed.wait(), 0) << feed.error();
  EXPECT_THAT(feed.output(), HasSubstr("batches of 4 images"));
  EXPECT_THAT(feed.error(), AllOf(HasSubstr("all ranks have left, and none came back for 2 s"),
                                  testing::Not(HasSubstr("error"))));
}

/// The first one is slow, so that it is killed while the rank trains on what it sends.
TEST(FeedTest, a_producer_that_is_killed_is_waited_for_until_another_comes) {
  const test::ScratchFolder folder;
  const std::string address = "ipc://" + folder.path("batches");
  const std::vector<std::string> feed{"lockstep", "feed",         "--address", address,     "--batch",
                                      "4",        "--image-size", "32",        "--classes", "10"};
  std::vector<std::string> slow = feed;
  slow.insert(slow.end(), {"--rate", "20"});
  test::Program first(slow);
  test::Program bench(bench_with({"--input", "zmq", "--address", address, "--ranks", "1", "--batch", "4"}));
  ASSERT_TRUE(bench.wait_for_error("trivial")) << bench.error();
  ::usleep(300'000);
  first.signal(SIGKILL);
  EXPECT_EQ(first.wait(), 128 + SIGKILL);
  EXPECT_FALSE(bench.wait_for_error("took", 0.5)) << bench.error();
  test::Program second(feed);
  EXPECT_EQ(bench.wait(), 0) << bench.error();
  second.signal(SIGTERM);
  EXPECT_EQ(second.wait(), 143);
}

/// Exactly as many batches as the steps take, from the program of the examples.
TEST(FeedTest, a_network_says_what_its_images_are) {
  const test::ScratchFolder folder;
  const std::string address = "ipc://" + folder.path("batches");
  test::Program feed({"lockstep", "feed", "--address", address, "--model", "lenet5", "--count", "11"});
  test::Program single({"lockstep", "feed", "--address", address, "--model", "lenet5", "--count", "1"});
  const test::Finished bench =
      test::run({"lockstep", "bench", "--model", "lenet5", "--ranks", "1", "--threads", "1", "--steps", "10",
                 "--warmup", "2", "--no-controls", "--input", "zmq", "--address", address});
  EXPECT_EQ(bench.exit_code, 0) << bench.error << feed.error();
  EXPECT_EQ(feed.wait(), 0) << feed.error();
  EXPECT_EQ(single.wait(), 0) << single.error();
  // No time passes from the first batch to the last.
  EXPECT_THAT(single.output(),
              testing::ContainsRegex("^sent 1 batch of [0-9]+ images in .*: - images/s, - GB/s"));
  const test::Finished both =
      test::run({"lockstep", "feed", "--address", address, "--model", "lenet5", "--classes", "7"});
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_THAT(both.error, HasSubstr("--classes is of no use beside --model"));
}

/// Batches that a socket has no room for, so that the last ones are queued when the producer has made them.
TEST(FeedTest, a_producer_in_python_feeds_a_rank) {
  const test::ScratchFolder folder;
  const std::string address = "ipc://" + folder.path("batches");
  test::Program feed({LOCKSTEP_SOURCE_DIR "/.venv-tests/bin/python3", LOCKSTEP_SOURCE_DIR "/examples/feed.py",
                      address, "1024", "32", "22"});
  const test::Finished bench =
      test::run(bench_with({"--input", "zmq", "--address", address, "--ranks", "1", "--batch", "1024"}));
  EXPECT_EQ(bench.exit_code, 0) << bench.error << feed.error();
  EXPECT_EQ(feed.wait(), 0) << feed.error() << "\n'make setup' installs pyzmq into .venv-tests";
}

TEST(FeedTest, a_rank_without_a_producer_and_a_producer_without_a_rank_give_up_with_a_name) {
  const test::ScratchFolder folder;
  const std::string address = "ipc://" + folder.path("batches");
  const test::Finished bench =
      test::run(bench_with({"--input", "zmq", "--address", address, "--ranks", "1", "--timeout", "1"}));
  EXPECT_EQ(bench.exit_code, 1);
  EXPECT_THAT(bench.error, HasSubstr("no batch has come to " + address + " for 1 s"));
  EXPECT_THAT(bench.error, HasSubstr("lockstep feed --address " + address + " --ranks 1"));
  const test::Finished train = test::run({"lockstep", "train", "--model", "trivial", "--input", "zmq",
                                          "--address", address, "--threads", "1", "--timeout", "1"});
  EXPECT_EQ(train.exit_code, 1);
  EXPECT_THAT(train.error, HasSubstr("no batch has come to " + address + " for 1 s"));
  const test::Finished feed = test::run({"lockstep", "feed", "--address", address, "--timeout", "0.1"});
  EXPECT_EQ(feed.exit_code, 1);
  EXPECT_THAT(feed.error, HasSubstr("nobody has taken a batch at " + address + " for 0.1 s"));
}

/// What it did not take during its pause is not made up for.
TEST(FeedTest, a_rank_that_pauses_is_fed_no_faster_afterwards) {
  const test::ScratchFolder folder;
  const std::string address = "ipc://" + folder.path("batches");
  feed::Receiver receiver({.address = address, .timeout_s = 20});
  test::Program feed({"lockstep", "feed", "--address", address, "--batch", "1", "--rate", "40", "--count",
                      "40", "--prefetch", "1"});
  receiver.next();
  const double begin_s = now_s();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  for (int i = 1; i < 40; ++i) receiver.next();
  EXPECT_GT(now_s() - begin_s, 1.5);
}

TEST(FeedTest, a_batch_of_another_shape_ends_the_run_with_what_was_expected) {
  const test::ScratchFolder folder;
  const std::string address = "ipc://" + folder.path("batches");
  test::Program feed({"lockstep", "feed", "--address", address, "--batch", "5", "--image-size", "32"});
  const test::Finished bench =
      test::run(bench_with({"--input", "zmq", "--address", address, "--ranks", "1", "--batch", "4"}));
  EXPECT_EQ(bench.exit_code, 1);
  EXPECT_THAT(bench.error, HasSubstr("message 1 at " + address +
                                     " has 5 images of 32 x 32 x 3, expected 4 images of 32 x 32 x 3"));
  feed.signal(SIGINT);
  EXPECT_EQ(feed.wait(), 130);
}

}  // namespace
}  // namespace lockstep
