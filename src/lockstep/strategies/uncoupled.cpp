#include "lockstep/strategies/catalog.h"

namespace lockstep::strategies {
namespace {

/// Forward, backward, optimizer; no hooks, no communication, 0 bytes per step. The strategy of `single` (the
/// baseline of speed-up) and `independent` (N of them at the same time, the limit of the machine), and the
/// optimizer of `data_parallel`, whose other part is a Model (train::DataParallelModel).
class Uncoupled final : public Strategy {
 public:
  explicit Uncoupled(const StrategyContext& context)
      : optimizer_(context.parameters.tensors(), context.optimizer) {}

  void begin_step() override { optimizer_.clear_gradients(); }

  void apply() override { optimizer_.step(); }

  void set_learning_rate(double rate) override { optimizer_.set_learning_rate(rate); }

  void save(replica::State& state) override { optimizer_.save(state); }
  void restore(const replica::State& state) override { optimizer_.restore(state); }

  int64_t momentum_bytes() const override { return optimizer_.momentum_bytes(); }

 private:
  replica::Sgd optimizer_;
};

}  // namespace

std::unique_ptr<Strategy> create_uncoupled(const StrategyContext& context) {
  return std::make_unique<Uncoupled>(context);
}

}  // namespace lockstep::strategies
