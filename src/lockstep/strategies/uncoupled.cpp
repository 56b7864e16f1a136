#include "lockstep/strategies/uncoupled.h"

namespace lockstep::strategies {
namespace {

class Uncoupled final : public Strategy {
 public:
  explicit Uncoupled(replica::Sgd& optimizer) : optimizer_(optimizer) {}

  void apply() override { optimizer_.step(); }

 private:
  replica::Sgd& optimizer_;
};

}  // namespace

std::unique_ptr<Strategy> create_uncoupled(const StrategyContext& context) {
  return std::make_unique<Uncoupled>(context.optimizer);
}

}  // namespace lockstep::strategies
