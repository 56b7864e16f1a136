// A strategy of your own, from its definition to a trained network: local SGD. Every rank trains alone and,
// every few steps, the ranks average their parameters. The argument is the number of ranks: local_sgd 4
//
// To make it a strategy of `lockstep bench`, move the class to src/lockstep/strategies and add a row to
// registry.cpp. docs/library.md walks through this file.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <vector>

#include <ATen/Parallel.h>

#include "lockstep/comm/backend.h"
#include "lockstep/comm/store.h"
#include "lockstep/inputs/input.h"
#include "lockstep/launch/threads.h"
#include "lockstep/models/model.h"
#include "lockstep/strategies/strategy.h"
#include "lockstep/strategies/tensor_buffer.h"
#include "lockstep/train/step/step_loop.h"

using namespace lockstep;

class LocalSgd final : public strategies::Strategy {
 public:
  LocalSgd(const strategies::StrategyContext& context, int period)
      : optimizer_(context.parameters.tensors(), context.optimizer),
        group_(*context.communicator),
        period_(period) {}

  // The backward pass writes new gradients; it would add to old ones.
  void begin_step() override { optimizer_.clear_gradients(); }

  // Collective in every period_-th step: all ranks call apply equally often, so they agree on which.
  void apply() override {
    optimizer_.step();
    if (++steps_ % period_ == 0) average();
  }

  void set_learning_rate(double rate) override { optimizer_.set_learning_rate(rate); }
  void save(replica::State& state) override {
    optimizer_.save(state);
    state.add("steps", int64_t{steps_});
  }
  void restore(const replica::State& state) override {
    optimizer_.restore(state);
    steps_ = static_cast<int>(state.number("steps"));
  }
  int64_t momentum_bytes() const override { return optimizer_.momentum_bytes(); }

 private:
  void average() {
    std::vector<comm::WorkPtr> works;
    for (const at::Tensor& parameter : optimizer_.parameters()) {
      const at::Tensor values = parameter.detach();
      values.div_(group_.size());
      works.push_back(group_.all_reduce(strategies::buffer_of(values), comm::ReduceOp::kSum));
    }
    for (const comm::WorkPtr& work : works) work->wait();
  }

  replica::Sgd optimizer_;
  comm::Communicator& group_;
  int period_;
  int steps_ = 0;
};

int main(int argc, char** argv) try {
  const int ranks = std::max(1, argc > 1 ? std::atoi(argv[1]) : 2);
  comm::HashStore store;
  launch::run_threads(ranks, [&](int rank) {
    at::set_num_threads(1);
    const auto group = comm::connect("thread", {.rank = rank, .size = ranks, .store = &store});
    const auto model = models::registry().get("mlp").create({});
    const auto input = inputs::registry().get("device").create(
        {.batch = 8, .channels = 3, .image_size = 32, .classes = 10, .rank = rank, .ranks = ranks});
    LocalSgd strategy({.parameters = model->parameters(), .optimizer = {}, .communicator = group.get()}, 5);

    launch::Progress progress;
    const train::StepLoopResult result = train::run_steps(
        {*model, *input, strategy, group.get()}, {.pacing = {.warmup_steps = 5, .steps = 20}}, progress);

    // 25 steps are a multiple of 5, so the ranks have just averaged: their replicas are equal.
    double own = model->parameters().tensors().front().detach().sum().item<double>();
    double least = own;
    group->all_reduce(comm::host_buffer(&least, 1), comm::ReduceOp::kMin)->wait();
    group->all_reduce(comm::host_buffer(&own, 1), comm::ReduceOp::kMax)->wait();
    if (rank == 0) {
      std::printf("%d ranks: loss %.3f to %.3f, replicas %s\n", ranks, result.loss_first, result.loss_last,
                  own == least ? "equal" : "DIFFERENT");
    }
    if (own != least || !(result.loss_last < result.loss_first)) std::exit(1);
  });
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "local_sgd: %s\n", error.what());
  return 1;
}
