#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/units.h"
#include "lockstep/comm/helper_thread.h"
#include "lockstep/comm/stoppable_wait.h"
#include "lockstep/strategies/buckets.h"
#include "lockstep/strategies/catalog.h"
#include "lockstep/strategies/flat_strategy.h"
#include "lockstep/strategies/negotiator.h"
#include "lockstep/strategies/tensor_buffer.h"

namespace lockstep::strategies {
namespace {

/// Thrown in the background thread while the strategy is being destroyed.
struct HorovodStopped {};

/// The queue between horovod's two threads: the training thread announces gradients, the background thread
/// hands over the all-reduces that it started. Both sleep while they wait. Thread-safe.
class Announcements {
 public:
  /// `tensors`: the number of tensors of a step.
  explicit Announcements(size_t tensors) : tensors_(tensors), announced_s_(tensors, 0) {}

  // For the training thread.

  void begin_step() {
    const std::lock_guard lock(background_->mutex);
    announced_count_ = 0;
    started_.clear();
    taken_ = 0;
  }
  void announce(size_t tensor) {
    const std::lock_guard lock(background_->mutex);
    announced_.push_back(tensor);
    announced_s_[tensor] = now_s();
    ++announced_count_;
    // If the background thread only waits for its next cycle, waking it would take the core from the backward
    // pass.
    if (wants_wakeup_ || announced_count_ == tensors_) background_->changed.notify_all();
  }
  /// Number of tensors not yet announced in this step.
  size_t missing() const {
    const std::lock_guard lock(background_->mutex);
    return tensors_ - announced_count_;
  }
  /// Returns the next all-reduce that was started; blocks until there is one. Throws the background thread's
  /// error.
  comm::WorkPtr next_started() {
    std::unique_lock lock(background_->mutex);
    to_training_.wait(lock, [this] { return failure_ || taken_ < started_.size(); });
    if (failure_) std::rethrow_exception(failure_);
    return std::move(started_[taken_++]);
  }
  /// Tells the background thread to stop.
  void stop() {
    const std::lock_guard lock(background_->mutex);
    background_->stopping = true;
    background_->changed.notify_all();
  }

  // For the background thread.

  /// Blocks until a tensor is announced. Returns false if the thread is to stop.
  bool wait_for_step() {
    std::unique_lock lock(background_->mutex);
    wants_wakeup_ = true;
    background_->changed.wait(lock, [this] { return background_->stopping || !announced_.empty(); });
    wants_wakeup_ = false;
    return !background_->stopping;
  }
  /// Returns the tensors announced since the last call. Blocks until there are some, then until `not_before`
  /// unless all of the step are announced. Empty if all were returned before. Absent if the thread is to
  /// stop.
  std::optional<std::vector<size_t>> take(std::chrono::steady_clock::time_point not_before) {
    std::unique_lock lock(background_->mutex);
    const auto everything = [this] { return announced_count_ == tensors_; };
    wants_wakeup_ = true;
    background_->changed.wait(lock,
                              [&] { return background_->stopping || !announced_.empty() || everything(); });
    wants_wakeup_ = false;
    background_->changed.wait_until(lock, not_before, [&] { return background_->stopping || everything(); });
    if (background_->stopping) return std::nullopt;
    return std::exchange(announced_, {});
  }
  /// Time at which the last of `tensors` was announced in this step, on the steady clock.
  double last_announced_s(const std::vector<size_t>& tensors) const {
    const std::lock_guard lock(background_->mutex);
    double last_s = 0;
    for (const size_t tensor : tensors) last_s = std::max(last_s, announced_s_[tensor]);
    return last_s;
  }
  void started(comm::WorkPtr work) {
    const std::lock_guard lock(background_->mutex);
    started_.push_back(std::move(work));
    to_training_.notify_all();
  }
  void failed(std::exception_ptr failure) {
    const std::lock_guard lock(background_->mutex);
    failure_ = std::move(failure);
    to_training_.notify_all();
  }
  /// Blocks until the work is complete, and throws its error. Returns false, with the work still in flight,
  /// if the thread is to stop.
  bool wait(comm::Work& work) { return comm::wait_unless_stopping(work, background_); }

 private:
  const size_t tensors_;
  /// Its mutex guards everything here.
  const std::shared_ptr<comm::StopPoint> background_ = std::make_shared<comm::StopPoint>();
  std::condition_variable to_training_;
  std::vector<size_t> announced_;
  std::vector<double> announced_s_;
  size_t announced_count_ = 0;
  bool wants_wakeup_ = false;
  std::vector<comm::WorkPtr> started_;
  size_t taken_ = 0;
  std::exception_ptr failure_;
};

std::vector<std::string> parameter_names(const replica::Parameters& parameters) {
  std::vector<std::string> names;
  for (const replica::NamedTensor& parameter : parameters.trainable()) names.push_back(parameter.name);
  return names;
}

/// Horovod (Sergeev and Del Balso 2018, "Horovod: fast and easy distributed deep learning in TensorFlow"):
/// gradients are announced by name when they become ready, and a background thread negotiates which are ready
/// on every rank, fuses those and all-reduces them.
///
/// Sends, in each step, all-reduces of P bytes in total (P: the parameters in fp32; half with a 16-bit
/// `wire`), in between P / fusion_mb and T messages (T: the number of tensors), and in each negotiation an
/// all-reduce of up to T + 1 bytes (Negotiator). A negotiation takes place every `cycle_ms` during backward:
///
///     training thread      announce   announce announce        announce     combine: wait for all, optimizer
///     background thread        | negotiate, fuse, all-reduce |     | negotiate, fuse, all-reduce |
///
/// Gradients are in flat memory, in the order on which the ranks agreed in the first step, so that fused
/// gradients are neighbors and are sent in place. Up to `fusion_mb` are fused. What is fused depends on
/// timing, and with it the order of summation if the backend's depends on a value's position in a buffer.
/// With `deterministic`, packs of whole tensors are fixed in advance, in the reverse order of registration,
/// and each is sent when all of it is ready.
///
/// A cycle in which this rank has nothing to announce is skipped, unless it has announced everything; between
/// steps there are none. The background thread uses the context's communicator until it hands over the last
/// all-reduce of a step, and one that was split off for negotiations. Destroying the strategy within a step
/// abandons operations in flight, without communicating.
///
/// Measures negotiation_s (time in negotiations, including the wait for other ranks), cycles, and packs.
/// Parameters are broadcast from rank 0 at the start, batch-norm buffers never.
class Horovod final : public FlatStrategy {
 public:
  explicit Horovod(const StrategyContext& context)
      : FlatStrategy(context, reverse_order(context.parameters.trainable().size())),
        accelerator_(context.accelerator),
        all_reduce_(group_, context.options.wire),
        cycle_(std::chrono::duration<double, std::milli>(context.options.cycle_ms)),
        deterministic_(context.options.deterministic),
        fusion_(memory_, static_cast<int64_t>(context.options.fusion_mb * static_cast<double>(kMiB)),
                deterministic_),
        announcements_(context.parameters.trainable().size()),
        negotiation_(context.host_communicator().split_first(group_.size())),
        gradients_(context.parameters, memory_, 1.0 / group_.size(), Copying::kEach,
                   [this](size_t index) { announcements_.announce(index); }) {
    negotiator_ = std::make_unique<Negotiator>(*negotiation_, parameter_names(context.parameters),
                                               [this](comm::Work& work) {
                                                 if (!announcements_.wait(work)) throw HorovodStopped{};
                                               });
    broadcast_values();
    thread_ = std::thread([this] { run(); });
  }

  ~Horovod() override {
    announcements_.stop();
    thread_.join();
    // The communicator goes first, because its operations may still write to members.
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
    optimizer_.prepare({memory_.gradients(everything())});
    memory_.apply(everything(), optimizer_, steps_ == 1);
    optimizer_.end_step();
  }

  std::vector<at::Tensor> equal_on_all_ranks() const override { return {memory_.gradients(everything())}; }

  void save(replica::State& state) override {
    if (steps_ > 0) follow_agreed_order();
    state.same_on_all_ranks = true;
    FlatStrategy::save(state);
  }

  void restore(const replica::State& state) override {
    FlatStrategy::restore(state);
    // The cache of names is negotiated anew, the order of the memory is not.
    if (steps_ > 0) agreed_order_ = memory_.order();
    ordered_ = steps_ > 0;
  }

  std::vector<Measured> measured() const override {
    return {{"negotiation_s", negotiation_s_},
            {"cycles", static_cast<double>(cycles_)},
            {"packs", static_cast<double>(packs_)}};
  }

 private:
  /// Adopts the order of the first step, once.
  void follow_agreed_order() {
    if (!ordered_ && !deterministic_) memory_.reorder(agreed_order_);
    ordered_ = true;
  }

  /// The background thread.
  void run() {
    comm::set_up_helper_thread("ls-horovod");
    try {
      // In the training thread's stream, so that sends follow the operations that autograd enqueued there.
      if (accelerator_ != nullptr) accelerator_->enter_thread();
      while (announcements_.wait_for_step()) {
        if (!negotiate_step()) return;
      }
    } catch (const HorovodStopped&) {
    } catch (...) {
      announcements_.failed(std::current_exception());
    }
  }

  /// Negotiates until all gradients of a step are sent. Returns false if the thread is to stop.
  bool negotiate_step() {
    const size_t tensors = memory_.order().size();
    auto not_before = Clock::now();
    for (size_t sent = 0; sent < tensors;) {
      const auto announced = announcements_.take(not_before);
      if (!announced) return false;
      const auto cycle_begin = Clock::now();
      not_before = cycle_begin + std::chrono::duration_cast<Clock::duration>(cycle_);
      const std::vector<size_t> everywhere = negotiator_->negotiate(*announced);
      negotiation_s_ = negotiation_s_ + std::chrono::duration<double>(Clock::now() - cycle_begin).count();
      ++cycles_;
      sent += everywhere.size();
      if (agreed_order_.size() < tensors) {
        agreed_order_.insert(agreed_order_.end(), everywhere.begin(), everywhere.end());
      }
      // A rank is ready for its packs when it has announced them: from then on it waits for the others.
      if (!send(fusion_.packs_of(everywhere), announcements_.last_announced_s(everywhere))) return false;
    }
    // Null marks the end of the step.
    announcements_.started(nullptr);
    return true;
  }

  /// All-reduces packs and waits for them, as Horovod does: gradients that become ready meanwhile are fused
  /// in the next cycle. Returns false if the thread is to stop.
  bool send(const std::vector<replica::Range>& packs, double ready_s) {
    std::vector<comm::WorkPtr> works;
    for (const replica::Range& pack : packs) {
      const at::Tensor gradients = memory_.gradients(pack);
      // A sum that is abandoned with the strategy still writes to the gradients, until the communicator is
      // taken down.
      works.push_back(comm::followed_by(all_reduce_.start(gradients, ready_s), [gradients] {}));
    }
    packs_ += static_cast<int64_t>(packs.size());
    for (comm::WorkPtr& work : works) {
      const bool goes_on = announcements_.wait(*work);
      announcements_.started(std::move(work));
      if (!goes_on) return false;
    }
    return true;
  }

  replica::Accelerator* accelerator_;
  WireAllReduce all_reduce_;
  std::chrono::duration<double, std::milli> cycle_;
  bool deterministic_;
  // The members up to packs_ belong to the background thread between the first announcement and the end of
  // combine().

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
  bool ordered_ = false;
};

}  // namespace

std::unique_ptr<Strategy> create_horovod(const StrategyContext& context) {
  return std::make_unique<Horovod>(context);
}

}  // namespace lockstep::strategies
