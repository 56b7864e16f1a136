#include "lockstep/strategies/horovod.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include <fmt/format.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/units.h"
#include "lockstep/comm/helper_thread.h"
#include "lockstep/strategies/announcements.h"
#include "lockstep/strategies/bucket_filler.h"
#include "lockstep/strategies/flat_gradients.h"
#include "lockstep/strategies/fusion.h"
#include "lockstep/strategies/negotiator.h"
#include "lockstep/strategies/tensor_buffer.h"
#include "lockstep/strategies/wire.h"

namespace lockstep::strategies {
namespace {

/// The strategy is being destroyed.
struct HorovodStopped {};

std::vector<std::string> names_of(const replica::Parameters& parameters) {
  std::vector<std::string> names;
  for (const replica::NamedTensor& parameter : parameters.trainable()) names.push_back(parameter.name);
  return names;
}

class Horovod final : public Strategy {
 public:
  explicit Horovod(const StrategyContext& context)
      : optimizer_(context.optimizer),
        group_(*context.communicator),
        accelerator_(context.accelerator),
        all_reduce_(group_, context.options.wire),
        cycle_(std::chrono::duration<double, std::milli>(context.options.cycle_ms)),
        deterministic_(context.options.deterministic),
        memory_(context.parameters, reverse_order(context.parameters.trainable().size())),
        fusion_(memory_, static_cast<int64_t>(context.options.fusion_mb * static_cast<double>(kMiB)),
                deterministic_),
        announcements_(context.parameters.trainable().size()),
        negotiation_(context.host_communicator().split_first(group_.size())),
        gradients_(context.parameters, memory_, 1.0 / group_.size(), Copying::kEach,
                   [this](size_t index) { announcements_.announce(index); }) {
    negotiator_ =
        std::make_unique<Negotiator>(*negotiation_, names_of(context.parameters), [this](comm::Work& work) {
          if (!announcements_.wait(work)) throw HorovodStopped{};
        });
    at::Tensor values = memory_.values({0, memory_.count()});
    wait_for(*group_.broadcast(buffer_of(values), 0), values);
    thread_ = std::thread([this] { run(); });
  }

  ~Horovod() override {
    announcements_.stop();
    thread_.join();
    // Before what it may still be writing to.
    negotiation_.reset();
  }

  void begin_step() override {
    if (steps_ > 0) follow_agreed_order();
    announcements_.begin_step();
    gradients_.begin_step();
  }

  void before_backward(bool last) override { gradients_.begin_backward(last); }

  void combine() override {
    if (const size_t missing = announcements_.missing(); missing > 0) {
      throw Error(fmt::format("{} parameters got no gradient in this step", missing),
                  "horovod needs a network that uses all of its parameters in every step.");
    }
    while (true) {
      const comm::WorkPtr work = announcements_.next_started();
      if (work == nullptr) break;
      wait_for(*work, memory_.gradients({}));
    }
    ++steps_;
  }

  void apply() override {
    const replica::Range all{0, memory_.count()};
    if (optimizer_.loss_scale) optimizer_.loss_scale->unscale({memory_.gradients(all)});
    memory_.apply(all, optimizer_, steps_ == 1);
    if (optimizer_.loss_scale) optimizer_.loss_scale->update();
  }

  void set_learning_rate(double rate) override { optimizer_.set_learning_rate(rate); }

  std::vector<at::Tensor> equal_on_all_ranks() const override {
    return {memory_.gradients({0, memory_.count()})};
  }

  void save(replica::State& state) override {
    if (steps_ > 0) follow_agreed_order();
    state.same_on_all_ranks = true;
    state.add("steps", steps_);
    if (optimizer_.loss_scale) optimizer_.loss_scale->save(state);
    memory_.save(state);
  }

  void restore(const replica::State& state) override {
    steps_ = state.number("steps");
    if (optimizer_.loss_scale) optimizer_.loss_scale->restore(state);
    memory_.restore(state);
    // Names are negotiated anew, the order is not.
    if (steps_ > 0) agreed_order_ = memory_.order();
    ordered_ = steps_ > 0;
  }

  int64_t momentum_bytes() const override { return memory_.momentum_bytes(); }

  std::vector<Measured> measured() const override {
    return {{"negotiation_s", negotiation_s_},
            {"cycles", static_cast<double>(cycles_)},
            {"packs", static_cast<double>(packs_)}};
  }

 private:
  /// Of the first step, once.
  void follow_agreed_order() {
    if (!ordered_ && !deterministic_) memory_.reorder(agreed_order_);
    ordered_ = true;
  }

  /// The background thread.
  void run() {
    comm::set_up_helper_thread("ls-horovod");
    try {
      // What it sends comes after what autograd has put into the same stream.
      if (accelerator_ != nullptr) accelerator_->enter_thread();
      while (announcements_.wait_for_step()) {
        if (!negotiate_step()) return;
      }
    } catch (const HorovodStopped&) {
    } catch (...) {
      announcements_.failed(std::current_exception());
    }
  }

  /// False: to end.
  bool negotiate_step() {
    const size_t tensors = memory_.order().size();
    auto not_before = Clock::now();
    for (size_t told = 0; told < tensors;) {
      const auto announced = announcements_.take(not_before);
      if (!announced) return false;
      const auto cycle_begin = Clock::now();
      not_before = cycle_begin + std::chrono::duration_cast<Clock::duration>(cycle_);
      const std::vector<size_t> everywhere = negotiator_->negotiate(*announced);
      negotiation_s_ = negotiation_s_ + std::chrono::duration<double>(Clock::now() - cycle_begin).count();
      ++cycles_;
      told += everywhere.size();
      if (agreed_order_.size() < tensors) {
        agreed_order_.insert(agreed_order_.end(), everywhere.begin(), everywhere.end());
      }
      if (!send(fusion_.packs_of(everywhere))) return false;
    }
    // That was all of this step.
    announcements_.started(nullptr);
    return true;
  }

  /// Returns when they have arrived, as the original does: what becomes ready meanwhile is fused in the next
  /// cycle. False: to end.
  bool send(const std::vector<replica::Range>& packs) {
    std::vector<comm::WorkPtr> works;
    for (const replica::Range& pack : packs) works.push_back(all_reduce_.start(memory_.gradients(pack)));
    packs_ += static_cast<int64_t>(packs.size());
    for (comm::WorkPtr& work : works) {
      const bool goes_on = announcements_.wait(*work);
      announcements_.started(std::move(work));
      if (!goes_on) return false;
    }
    return true;
  }

  replica::SgdOptions optimizer_;
  comm::Communicator& group_;
  replica::Accelerator* accelerator_;
  WireAllReduce all_reduce_;
  std::chrono::duration<double, std::milli> cycle_;
  bool deterministic_;
  replica::FlatMemory memory_;
  /// From here on the background thread's between the first announcement and the end of combine.
  Fusion fusion_;
  std::vector<size_t> agreed_order_;
  std::unique_ptr<Negotiator> negotiator_;
  std::atomic<double> negotiation_s_ = 0;
  std::atomic<int64_t> cycles_ = 0;
  std::atomic<int64_t> packs_ = 0;

  Announcements announcements_;
  std::unique_ptr<comm::Communicator> negotiation_;
  FlatGradients gradients_;
  std::thread thread_;
  int64_t steps_ = 0;
  bool ordered_ = false;
};

}  // namespace

std::unique_ptr<Strategy> create_horovod(const StrategyContext& context) {
  return std::make_unique<Horovod>(context);
}

}  // namespace lockstep::strategies
