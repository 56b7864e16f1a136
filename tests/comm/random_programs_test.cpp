#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "comm/rank_world.h"
#include "comm/typed_values.h"

namespace lockstep::comm {
namespace {

/// Over 1, 2, 3, 4 and 7 ranks together 1,000 with threads; other backends need
/// longer to split.
int programs() {
  const std::string& backend = RankWorld::get().backend();
  return backend == "thread" ? 200 : backend == "mpi" ? 40 : 12;
}

/// One rank's run of a program that is drawn from its number: collectives, messages and splits over several
/// communicators, begun in the order that all ranks agree on, and waited for in an order of each rank's own.
class RandomProgram {
 public:
  RandomProgram(Communicator& world, int number)
      : agreed_(static_cast<uint32_t>(number)),
        own_(static_cast<uint32_t>(1000 * number + world.rank() + 1)),
        world_(world) {}

  void run() {
    const int length = 5 + draw(16);
    for (int i = 0; i < length; ++i) {
      issue();
      if (own_() % 3 == 0) finish_some(static_cast<size_t>(own_() % (in_flight_.size() + 1)));
    }
    finish_some(in_flight_.size());
    // Nobody's messages are on the way when the parts go.
    world_.barrier()->wait();
  }

 private:
  struct InFlight {
    std::vector<WorkPtr> works;
    std::function<void()> check;
  };

  struct Part {
    std::unique_ptr<Communicator> communicator;
    int size = 0;
  };

  /// The same on all ranks.
  int draw(int below) { return static_cast<int>(agreed_() % static_cast<uint32_t>(below)); }

  void issue() {
    // A rank outside the part draws the same random numbers, and sits out.
    const int which = draw(static_cast<int>(parts_.size()) + 1);
    const bool of_world = which == 0;
    const size_t part = of_world ? 0 : static_cast<size_t>(which - 1);
    Communicator* comm = of_world ? &world_ : parts_[part].communicator.get();
    const int size = of_world ? world_.size() : parts_[part].size;
    const DType dtype = kAllDTypes[static_cast<size_t>(draw(static_cast<int>(kAllDTypes.size())))];
    const ReduceOp op = kAllOps[static_cast<size_t>(draw(static_cast<int>(kAllOps.size())))];
    const auto count = static_cast<size_t>(draw(2) == 0 ? draw(4) : draw(2000));
    const int root = draw(size);
    const int kind = draw(8);
    if (kind == 7) return split(comm, size);
    if (comm != nullptr) start(*comm, kind, dtype, op, count, root);
  }

  void split(Communicator* from, int size) {
    std::vector<int> members;
    for (int rank = 0; rank < size; ++rank) {
      if (draw(3) > 0) members.push_back(rank);
    }
    if (members.empty() || parts_.size() == 3) return;
    Part part{.communicator = nullptr, .size = static_cast<int>(members.size())};
    if (from != nullptr) part.communicator = from->split(members);
    parts_.push_back(std::move(part));
  }

  void start(Communicator& comm, int kind, DType dtype, ReduceOp op, size_t count, int root) {
    const auto size = static_cast<size_t>(comm.size());
    const bool wide_in = kind == 4 || kind == 5;
    const bool wide_out = kind == 3 || kind == 5;
    auto in = std::make_shared<TypedValues>(
        TypedValues::whole_numbers(dtype, wide_in ? size * count : count, comm.rank()));
    auto out = std::make_shared<TypedValues>(TypedValues(dtype, wide_out ? size * count : count));
    InFlight one;
    switch (kind) {
      case 0:
        one.works.push_back(comm.all_reduce(in->buffer(), op));
        one.check = [=, all = first_ranks(comm.size())] {
          for (size_t i = 0; i < count; ++i) ASSERT_EQ(in->get(i), reduced_whole_number(op, all, i));
        };
        break;
      case 1:
        one.works.push_back(comm.reduce(in->buffer(), op, root));
        one.check = [=, all = first_ranks(comm.size()), here = comm.rank() == root] {
          for (size_t i = 0; here && i < count; ++i) ASSERT_EQ(in->get(i), reduced_whole_number(op, all, i));
        };
        break;
      case 2:
        one.works.push_back(comm.broadcast(in->buffer(), root));
        one.check = [=] {
          for (size_t i = 0; i < count; ++i) ASSERT_EQ(in->get(i), whole_number(root, i));
        };
        break;
      case 3:
        one.works.push_back(comm.all_gather(in->buffer(), out->buffer()));
        one.check = [=] {
          for (size_t i = 0; i < size * count; ++i) {
            ASSERT_EQ(out->get(i), whole_number(static_cast<int>(i / count), i % count));
          }
        };
        break;
      case 4:
        one.works.push_back(comm.reduce_scatter(in->buffer(), out->buffer(), op));
        one.check = [=, all = first_ranks(comm.size()), begin = static_cast<size_t>(comm.rank()) * count] {
          for (size_t i = 0; i < count; ++i) ASSERT_EQ(out->get(i), reduced_whole_number(op, all, begin + i));
        };
        break;
      case 5:
        one.works.push_back(comm.all_to_all(in->buffer(), out->buffer()));
        one.check = [=, begin = static_cast<size_t>(comm.rank()) * count] {
          for (size_t i = 0; i < size * count; ++i) {
            ASSERT_EQ(out->get(i), whole_number(static_cast<int>(i / count), begin + i % count));
          }
        };
        break;
      default:
        start_messages(comm, *in, *out, one);
        one.check = [=, from = left_of(comm)] {
          for (size_t i = 0; size > 1 && i < count; ++i) ASSERT_EQ(out->get(i), whole_number(from, i));
        };
    }
    one.works.push_back(comm.barrier());
    // The buffers live as long as the check.
    in_flight_.push_back(std::move(one));
    kept_.insert(kept_.end(), {in, out});
  }

  static int left_of(const Communicator& comm) { return (comm.rank() + comm.size() - 1) % comm.size(); }

  /// To the right, from the left.
  static void start_messages(Communicator& comm, TypedValues& in, TypedValues& out, InFlight& one) {
    if (comm.size() == 1) return;
    one.works.push_back(comm.send(in.buffer(), (comm.rank() + 1) % comm.size(), 5));
    one.works.push_back(comm.receive(out.buffer(), left_of(comm), 5));
  }

  void finish_some(size_t count) {
    std::shuffle(in_flight_.begin(), in_flight_.end(), own_);
    for (; count > 0; --count) {
      InFlight one = std::move(in_flight_.back());
      in_flight_.pop_back();
      std::shuffle(one.works.begin(), one.works.end(), own_);
      for (const WorkPtr& work : one.works) work->wait();
      one.check();
    }
  }

  std::mt19937 agreed_;
  std::mt19937 own_;
  Communicator& world_;
  std::vector<Part> parts_;
  std::vector<std::shared_ptr<TypedValues>> kept_;
  std::vector<InFlight> in_flight_;
};

TEST(RandomProgramsTest, collectives_messages_and_splits_come_to_an_end_with_the_right_values) {
  RankWorld::get().run([](Communicator& comm) {
    for (int number = 0; number < programs(); ++number) {
      SCOPED_TRACE(testing::Message() << "program " << number << " of rank " << comm.rank());
      RandomProgram(comm, number).run();
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

}  // namespace
}  // namespace lockstep::comm
