#include <vector>

#include <gtest/gtest.h>

#include "comm/rank_world.h"
#include "comm/typed_values.h"

namespace lockstep::comm {
namespace {

constexpr size_t kSizes[] = {0, 1, 3, 10, 1000};
constexpr size_t kLargeSize = 100003;

/// Every dtype at small sizes, and a large one where the size matters more than the dtype.
template <typename Body>
void for_each_case(Body body) {
  for (const DType dtype : kAllDTypes) {
    for (const size_t count : kSizes) {
      SCOPED_TRACE(testing::Message() << count << " x " << to_string(dtype));
      body(dtype, count);
    }
  }
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kUInt8}) {
    SCOPED_TRACE(testing::Message() << kLargeSize << " x " << to_string(dtype));
    body(dtype, kLargeSize);
  }
}

void expect_reduced(const TypedValues& got, ReduceOp op, const std::vector<int>& ranks,
                    size_t first_index = 0) {
  for (size_t i = 0; i < got.count(); ++i) {
    ASSERT_EQ(got.get(i), reduced_whole_number(op, ranks, first_index + i)) << "element " << i;
  }
}

/// Fails unless `mine` has the same bits on every rank.
void expect_equal_everywhere(Communicator& comm, TypedValues& mine) {
  TypedValues all(mine.dtype(), mine.count() * size_t(comm.size()));
  comm.all_gather(mine.buffer(), all.buffer())->wait();
  for (int rank = 0; rank < comm.size(); ++rank) {
    const uint8_t* theirs = all.data() + size_t(rank) * mine.size_bytes();
    ASSERT_EQ(std::memcmp(theirs, mine.data(), mine.size_bytes()), 0) << "rank " << rank << " differs";
  }
}

TEST(CollectivesTest, all_reduce_combines_every_dtype_and_operation) {
  RankWorld::get().run([](Communicator& comm) {
    for_each_case([&](DType dtype, size_t count) {
      for (const ReduceOp op : kAllOps) {
        if (op != ReduceOp::kSum && count != 3 && count != 1000) continue;
        TypedValues values = TypedValues::whole_numbers(dtype, count, comm.rank());
        comm.all_reduce(values.buffer(), op)->wait();
        expect_reduced(values, op, first_ranks(comm.size()));
      }
    });
  });
}

TEST(CollectivesTest, what_follows_a_barrier_needs_no_wait_for_the_others) {
  RankWorld::get().run([](Communicator& comm) {
    for (const size_t count : {size_t{3}, size_t{1000}, kLargeSize}) {
      TypedValues values = TypedValues::whole_numbers(DType::kFloat32, count, comm.rank());
      comm.run({.kind = Collective::Kind::kBarrier});
      comm.run({.kind = Collective::Kind::kAllReduce,
                .input = values.buffer(),
                .output = values.buffer(),
                .arrived = true});
      expect_reduced(values, ReduceOp::kSum, first_ranks(comm.size()));
    }
  });
}

TEST(CollectivesTest, all_reduce_of_inexact_sums_has_the_same_bits_everywhere) {
  RankWorld::get().run([](Communicator& comm) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
      for (const size_t count : {size_t{5}, size_t{1000}, kLargeSize}) {
        TypedValues values(dtype, count);
        std::vector<double> sum(count);
        for (int rank = 0; rank < comm.size(); ++rank) {
          TypedValues part(dtype, count);
          for (size_t i = 0; i < count; ++i) {
            part.set(i, double(scrambled(uint64_t(rank), i) % 100000) / 99999 + 0.1);
            sum[i] += part.get(i);
          }
          if (rank == comm.rank()) values = part;
        }
        comm.all_reduce(values.buffer(), ReduceOp::kSum)->wait();
        // Each addition of values under 8 is off by at most half a unit in the last place of 8.
        const double unit = dtype == DType::kBFloat16 ? 0x1p-5 : dtype == DType::kFloat16 ? 0x1p-8 : 0x1p-21;
        for (size_t i = 0; i < count; ++i) ASSERT_NEAR(values.get(i), sum[i], unit * comm.size());
        expect_equal_everywhere(comm, values);
      }
    }
  });
}

TEST(CollectivesTest, reduce_combines_on_every_root) {
  RankWorld::get().run([](Communicator& comm) {
    int root = 0;
    for_each_case([&](DType dtype, size_t count) {
      const ReduceOp op = kAllOps[size_t(root) % kAllOps.size()];
      TypedValues values = TypedValues::whole_numbers(dtype, count, comm.rank());
      comm.reduce(values.buffer(), op, root)->wait();
      if (comm.rank() == root) expect_reduced(values, op, first_ranks(comm.size()));
      root = (root + 1) % comm.size();
    });
  });
}

TEST(CollectivesTest, broadcast_comes_from_every_root) {
  RankWorld::get().run([](Communicator& comm) {
    int root = 0;
    for_each_case([&](DType dtype, size_t count) {
      TypedValues values = TypedValues::scrambled_bytes(dtype, count, comm.rank());
      comm.broadcast(values.buffer(), root)->wait();
      ASSERT_EQ(values, TypedValues::scrambled_bytes(dtype, count, root));
      root = (root + 1) % comm.size();
    });
  });
}

TEST(CollectivesTest, all_gather_puts_every_rank_in_its_place) {
  RankWorld::get().run([](Communicator& comm) {
    for (const bool in_place : {false, true}) {
      for_each_case([&](DType dtype, size_t count) {
        if (in_place && count != 3 && count != 1000) return;
        TypedValues input = TypedValues::scrambled_bytes(dtype, count, comm.rank());
        TypedValues output(dtype, count * size_t(comm.size()));
        Buffer source = input.buffer();
        if (in_place) {
          source = output.part(size_t(comm.rank()) * count, count);
          if (count > 0) std::memcpy(source.data, input.data(), input.size_bytes());
        }
        comm.all_gather(source, output.buffer())->wait();
        for (int rank = 0; rank < comm.size(); ++rank) {
          const TypedValues expected = TypedValues::scrambled_bytes(dtype, count, rank);
          const uint8_t* got = output.data() + size_t(rank) * expected.size_bytes();
          ASSERT_EQ(std::memcmp(got, expected.data(), expected.size_bytes()), 0) << "part " << rank;
        }
        ASSERT_EQ(input, TypedValues::scrambled_bytes(dtype, count, comm.rank()));
      });
    }
  });
}

TEST(CollectivesTest, reduce_scatter_gives_each_rank_its_part) {
  RankWorld::get().run([](Communicator& comm) {
    for (const bool in_place : {false, true}) {
      size_t turn = 0;
      for_each_case([&](DType dtype, size_t count) {
        if (in_place && count != 3 && count != 1000) return;
        const ReduceOp op = kAllOps[turn++ % kAllOps.size()];
        TypedValues input = TypedValues::whole_numbers(dtype, count * size_t(comm.size()), comm.rank());
        TypedValues output(dtype, count);
        const size_t first = size_t(comm.rank()) * count;
        const Buffer target = in_place ? input.part(first, count) : output.buffer();
        comm.reduce_scatter(input.buffer(), target, op)->wait();
        if (in_place && count > 0) std::memcpy(output.data(), target.data, output.size_bytes());
        expect_reduced(output, op, first_ranks(comm.size()), first);
      });
    }
  });
}

TEST(CollectivesTest, reduce_scatter_of_more_pieces_than_are_in_flight) {
  // The ring over Gloo cuts parts of 2.8 MB into three pieces.
  constexpr size_t kCount = 700'001;
  RankWorld::get().run([](Communicator& comm) {
    const size_t first = size_t(comm.rank()) * kCount;
    TypedValues input =
        TypedValues::whole_numbers(DType::kFloat32, kCount * size_t(comm.size()), comm.rank());
    TypedValues output(DType::kFloat32, kCount);
    comm.reduce_scatter(input.buffer(), output.buffer(), ReduceOp::kSum)->wait();
    expect_reduced(output, ReduceOp::kSum, first_ranks(comm.size()), first);
  });
}

TEST(CollectivesTest, all_to_all_transposes) {
  RankWorld::get().run([](Communicator& comm) {
    for_each_case([&](DType dtype, size_t part_count) {
      const size_t count = part_count * size_t(comm.size());
      TypedValues input = TypedValues::scrambled_bytes(dtype, count, comm.rank());
      TypedValues output(dtype, count);
      comm.all_to_all(input.buffer(), output.buffer())->wait();
      const size_t part_bytes = part_count * element_bytes(dtype);
      for (int rank = 0; rank < comm.size(); ++rank) {
        const TypedValues theirs = TypedValues::scrambled_bytes(dtype, count, rank);
        ASSERT_EQ(std::memcmp(output.data() + size_t(rank) * part_bytes,
                              theirs.data() + size_t(comm.rank()) * part_bytes, part_bytes),
                  0)
            << "part " << rank;
      }
      ASSERT_EQ(input, TypedValues::scrambled_bytes(dtype, count, comm.rank()));
    });
  });
}

TEST(CollectivesTest, sums_of_integers_wrap_around) {
  RankWorld::get().run([](Communicator& comm) {
    const int ranks = comm.size();
    for (const size_t count : {size_t{3}, kLargeSize}) {
      std::vector<uint8_t> bytes(count, uint8_t(200 + comm.rank()));
      comm.all_reduce(host_buffer(bytes.data(), count), ReduceOp::kSum)->wait();
      EXPECT_EQ(bytes, std::vector<uint8_t>(count, uint8_t(200 * ranks + ranks * (ranks - 1) / 2)));
      std::vector<int32_t> words(count, 0x7fffffff);
      comm.all_reduce(host_buffer(words.data(), count), ReduceOp::kSum)->wait();
      EXPECT_EQ(words, std::vector<int32_t>(count, int32_t(0x7fffffffU * uint32_t(ranks))));
    }
  });
}

TEST(CollectivesTest, large_buffers_arrive_whole) {
  RankWorld::get().run([](Communicator& comm) {
    // Several segments of every algorithm, and no multiple of anything.
    const size_t count = 3'000'017 / size_t(comm.size());
    TypedValues values = TypedValues::whole_numbers(DType::kFloat32, count, comm.rank());
    comm.all_reduce(values.buffer(), ReduceOp::kSum)->wait();
    expect_reduced(values, ReduceOp::kSum, first_ranks(comm.size()));

    const size_t part = count / size_t(comm.size());
    TypedValues input = TypedValues::whole_numbers(DType::kFloat32, part * size_t(comm.size()), comm.rank());
    TypedValues output(DType::kFloat32, part);
    comm.reduce_scatter(input.buffer(), output.buffer(), ReduceOp::kSum)->wait();
    expect_reduced(output, ReduceOp::kSum, first_ranks(comm.size()), size_t(comm.rank()) * part);

    TypedValues from_last = TypedValues::scrambled_bytes(DType::kUInt8, count, comm.rank());
    comm.broadcast(from_last.buffer(), comm.size() - 1)->wait();
    EXPECT_EQ(from_last, TypedValues::scrambled_bytes(DType::kUInt8, count, comm.size() - 1));
  });
}

}  // namespace
}  // namespace lockstep::comm
