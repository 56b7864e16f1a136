#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/staging/copy_engine.h"
#include "lockstep/comm/staging/staging_pipeline.h"

#include "comm/host_copy_engine.h"
#include "comm/rank_world.h"
#include "comm/typed_values.h"

namespace lockstep::comm {
namespace {

/// Copies at once and writes down what it is asked for.
class RecordingEngine final : public CopyEngine {
 public:
  explicit RecordingEngine(std::vector<std::string>& log) : log_(log) {}

  std::shared_ptr<std::byte> host_memory(size_t bytes) override {
    largest_ = std::max(largest_, bytes);
    ++allocations_;
    return real_.host_memory(bytes);
  }
  MarkPtr mark_stream(void*) override { return real_.mark_stream(nullptr); }
  MarkPtr mark_lane(Lane lane) override { return real_.mark_lane(lane); }
  void hold_lane(Lane lane, const Mark& mark) override { real_.hold_lane(lane, mark); }
  void copy(Lane lane, void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t row_bytes,
            size_t rows) override {
    log_.push_back((lane == Lane::kOut ? "out " : "in ") + std::to_string(rows) + "x" +
                   std::to_string(row_bytes));
    real_.copy(lane, to, to_pitch, from, from_pitch, row_bytes, rows);
  }
  void wait(const Mark& mark) override { real_.wait(mark); }
  bool reached(const Mark& mark) override { return real_.reached(mark); }

  size_t largest() const { return largest_; }
  int allocations() const { return allocations_; }

 private:
  HostCopyEngine real_;
  std::vector<std::string>& log_;
  size_t largest_ = 0;
  int allocations_ = 0;
};

class StagingPipelineTest : public testing::Test {
 protected:
  StagingPipeline::HostCall call() {
    return
        [this](const Buffer& input, const Buffer&) { log_.push_back("call " + std::to_string(input.count)); };
  }

  std::vector<std::string> log_;
  std::shared_ptr<RecordingEngine> engine_ = std::make_shared<RecordingEngine>(log_);
};

TEST_F(StagingPipelineTest, the_next_piece_comes_out_and_the_last_goes_in_while_one_is_called) {
  StagingPipeline pipeline(engine_, 64 * sizeof(float));
  std::vector<float> values(200);
  const Buffer buffer = host_buffer(values.data(), values.size());
  pipeline.run({.input = buffer, .output = buffer, .columns = 200, .in_place = true}, {}, call());
  EXPECT_EQ(log_,
            (std::vector<std::string>{"out 1x256", "out 1x256", "call 64", "in 1x256", "out 1x256", "call 64",
                                      "in 1x256", "out 1x32", "call 64", "in 1x256", "call 8", "in 1x32"}));
  EXPECT_EQ(engine_->largest(), 64 * sizeof(float));
}

TEST_F(StagingPipelineTest, no_operation_waits_for_memory) {
  StagingPipeline pipeline(engine_, 64 * sizeof(float));
  const int before = engine_->allocations();
  EXPECT_EQ(before, 3);
  std::vector<float> values(200);
  const Buffer buffer = host_buffer(values.data(), values.size());
  pipeline.run({.input = buffer, .output = buffer, .columns = 200, .in_place = true}, {}, call());
  EXPECT_EQ(engine_->allocations(), before);
}

TEST_F(StagingPipelineTest, a_piece_of_a_table_takes_its_share_of_every_row) {
  StagingPipeline pipeline(engine_, 1024);
  std::vector<float> input(100);
  std::vector<float> output(300);
  pipeline.run({.input = host_buffer(input.data(), 100),
                .output = host_buffer(output.data(), 300),
                .output_rows = 3,
                .columns = 100},
               {}, [&](const Buffer& from, const Buffer& to) {
                 log_.push_back("call " + std::to_string(from.count) + " " + std::to_string(to.count));
               });
  EXPECT_EQ(log_, (std::vector<std::string>{"out 1x256", "out 1x144", "call 64 192", "in 3x256",
                                            "call 36 108", "in 3x144"}));
}

TEST_F(StagingPipelineTest, nothing_is_copied_that_nobody_wants) {
  StagingPipeline pipeline(engine_, 1 << 20);
  std::vector<float> values(10);
  const Buffer buffer = host_buffer(values.data(), values.size());
  StagedTables tables{.input = buffer, .output = buffer, .columns = 10, .in_place = true};
  tables.reads_input = false;
  pipeline.run(tables, {}, call());
  tables.reads_input = true;
  tables.wants_output = false;
  pipeline.run(tables, {}, call());
  tables.columns = 0;
  pipeline.run(tables, {}, call());
  EXPECT_EQ(log_, (std::vector<std::string>{"call 10", "in 1x40", "out 1x40", "call 10"}));
}

TEST_F(StagingPipelineTest, no_copy_goes_on_after_a_failure) {
  auto engine = std::make_shared<HostCopyEngine>();
  StagingPipeline pipeline(engine, 1 << 20);
  constexpr size_t kValues = 4 << 20;
  auto values = std::make_unique<std::vector<float>>(kValues, 1.f);
  const Buffer buffer = host_buffer(values->data(), kValues);
  const auto fail = [](const Buffer&, const Buffer&) { throw CommError("the peer has left"); };
  EXPECT_THROW(
      pipeline.run({.input = buffer, .output = buffer, .columns = kValues, .in_place = true}, {}, fail),
      CommError);
  // A copy still running would read freed memory, which the sanitizers report.
  const auto marked = engine->mark_lane(CopyEngine::Lane::kOut);
  values.reset();
  engine->wait(*marked);
}

Buffer on_device(std::vector<float>& values, void* stream = nullptr) {
  Buffer buffer = host_buffer(values.data(), values.size());
  buffer.device = DeviceKind::kCuda;
  buffer.stream = stream;
  return buffer;
}

/// Something that happens later, in a stream.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

TEST(StagedTransportTest, what_a_stream_still_computes_is_waited_for_and_what_comes_later_is_not) {
  run_staged_threads(2, test_timeout(), [](Communicator& comm) {
    HostStream stream;
    Gate computed;
    Gate later;
    std::vector<float> values(5000, -1.f);
    stream.run([&] {
      computed.wait();
      std::fill(values.begin(), values.end(), float(comm.rank() + 1));
    });
    const WorkPtr work = comm.all_reduce(on_device(values, &stream), ReduceOp::kSum);
    stream.run([&] { later.wait(); });
    EXPECT_FALSE(work->test());
    computed.open();
    work->wait();
    EXPECT_EQ(values, std::vector<float>(5000, 3.f));
    later.open();
  });
}

TEST(StagedTransportTest, a_received_message_does_not_overwrite_what_a_stream_still_reads) {
  run_staged_threads(2, test_timeout(), [](Communicator& comm) {
    std::vector<float> values(100, float(comm.rank()));
    if (comm.rank() == 0) {
      comm.send(on_device(values), 1, 3)->wait();
      comm.barrier()->wait();
      return;
    }
    HostStream stream;
    Gate go;
    float seen = -1;
    stream.run([&] {
      go.wait();
      seen = values[99];
    });
    const WorkPtr work = comm.receive(on_device(values, &stream), 0, 3);
    // The message itself is there once its sender has passed.
    comm.barrier()->wait();
    EXPECT_FALSE(work->test());
    EXPECT_EQ(values[99], 1.f);
    go.open();
    work->wait();
    EXPECT_EQ(values[99], 0.f);
    EXPECT_EQ(seen, 1.f);
  });
}

TEST(StagedTransportTest, sends_leave_in_the_order_of_their_calls) {
  run_staged_threads(2, test_timeout(), [](Communicator& comm) {
    constexpr int kMessages = 50;
    std::vector<std::vector<float>> values(kMessages, std::vector<float>(300, -1.f));
    std::vector<WorkPtr> works;
    for (int i = 0; i < kMessages; ++i) {
      if (comm.rank() == 0) values[size_t(i)].assign(300, float(i));
      const Buffer buffer = on_device(values[size_t(i)]);
      works.push_back(comm.rank() == 0 ? comm.send(buffer, 1, 0) : comm.receive(buffer, 0, 0));
    }
    for (const WorkPtr& work : works) work->wait();
    for (int i = 0; i < kMessages; ++i) EXPECT_EQ(values[size_t(i)][299], float(i));
  });
}

TEST(StagedTransportTest, host_and_device_memory_mix_between_operations_and_not_within_one) {
  run_staged_threads(2, test_timeout(), [](Communicator& comm) {
    std::vector<float> a(1000, 1.f);
    std::vector<float> b(1000, 2.f);
    std::vector<float> all(2000);
    const WorkPtr first = comm.all_reduce(on_device(a), ReduceOp::kSum);
    const WorkPtr second = comm.all_reduce(host_buffer(b.data(), b.size()), ReduceOp::kSum);
    second->wait();
    first->wait();
    EXPECT_EQ(a[999], 2.f);
    EXPECT_EQ(b[999], 4.f);
    try {
      comm.all_gather(on_device(a), host_buffer(all.data(), all.size()));
      ADD_FAILURE() << "not refused";
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find("input is CUDA memory, output is host memory"),
                std::string::npos)
          << error.what();
    }
  });
}

TEST(StagedTransportTest, a_rank_that_leaves_fails_the_others) {
  run_staged_threads(2, test_timeout(), [](Communicator& comm) {
    if (comm.rank() == 1) return;
    std::vector<float> values(100000, 1.f);
    const WorkPtr work = comm.all_reduce(on_device(values), ReduceOp::kSum);
    EXPECT_THROW(work->wait(), CommError);
    EXPECT_THROW(comm.receive(on_device(values), 1, 0), CommError);
  });
}

TEST(StagedTransportTest, a_time_out_is_final) {
  std::atomic<bool> over{false};
  run_staged_threads(2, test_timeout(), [&](Communicator& comm) {
    if (comm.rank() == 1) {
      while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      return;
    }
    std::vector<float> values(10, 1.f);
    const WorkPtr work = comm.receive(on_device(values), 1, 0);
    EXPECT_THROW(work->wait(Duration(0.05)), TimeoutError);
    EXPECT_THROW(comm.barrier(), TimeoutError);
    over = true;
  });
}

TEST(StagedTransportTest, a_rank_alone_takes_device_memory_and_waits_for_its_stream) {
  run_staged_threads(1, test_timeout(), [](Communicator& comm) {
    HostStream stream;
    Gate computed;
    std::vector<float> values(10, 0.f);
    std::vector<float> gathered(10, -1.f);
    stream.run([&] {
      computed.wait();
      values.assign(10, 7.f);
    });
    const WorkPtr reduced = comm.all_reduce(on_device(values, &stream), ReduceOp::kSum);
    const WorkPtr copied = comm.all_gather(on_device(values, &stream), on_device(gathered));
    EXPECT_FALSE(reduced->test());
    EXPECT_FALSE(copied->test());
    computed.open();
    reduced->wait();
    copied->wait();
    EXPECT_EQ(gathered[9], 7.f);
  });
}

TEST(StagedTransportTest, a_rank_alone_leaves_the_order_within_a_stream_to_the_stream) {
  run_staged_threads(1, test_timeout(), [](Communicator& comm) {
    HostStream stream;
    Gate computed;
    std::vector<float> values(10, 0.f);
    stream.run([&] { computed.wait(); });
    const WorkPtr reduced = comm.all_reduce(on_device(values, &stream), ReduceOp::kSum);
    const WorkPtr gathered = comm.all_gather(on_device(values, &stream), on_device(values, &stream));
    // Both would wait for the gate.
    reduced->wait_in_stream(&stream);
    gathered->wait_in_stream(&stream);
    EXPECT_FALSE(reduced->test());
    computed.open();
    HostStream other;
    reduced->wait_in_stream(&other);
    EXPECT_TRUE(reduced->test());
  });
}

TEST(CopyEngineTest, a_missing_plugin_says_how_to_get_it) {
  const char* before = std::getenv("LOCKSTEP_PLUGIN_PATH");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("LOCKSTEP_PLUGIN_PATH", "/nonexistent", 1);
  try {
    open_copy_engine(0);
    ADD_FAILURE() << "opened";
  } catch (const BackendMissing& error) {
    EXPECT_FALSE(error.advice().empty());
  }
  ::setenv("LOCKSTEP_PLUGIN_PATH", kept.c_str(), 1);
}

}  // namespace
}  // namespace lockstep::comm
