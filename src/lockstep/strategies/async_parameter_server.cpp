#include <deque>
#include <utility>

#include <fmt/format.h>

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/strategies/buckets.h"
#include "lockstep/strategies/catalog.h"
#include "lockstep/strategies/gradient_server.h"
#include "lockstep/strategies/parameter_shards.h"
#include "lockstep/strategies/tensor_buffer.h"

namespace lockstep::strategies {
namespace {

comm::Communicator& able_to_receive_from_any(comm::Communicator& group) {
  const comm::Capabilities can = group.capabilities();
  // LibTorch initializes a thread's number of OpenMP threads, on first use, with the number that any thread
  // set last. The training thread must have its own before the server's thread sets 1.
  at::get_num_threads();
  if (can.receive_any) return group;
  throw ConfigError(fmt::format("--consistency async: the backend {} cannot receive from whoever is ready",
                                group.backend()),
                    "Use --backend gloo, mpi or thread, or --consistency sync.");
}

/// A copy of `values` on the device of --parameter-device.
at::Tensor variables(const at::Tensor& values, const StrategyContext& context) {
  if (context.accelerator == nullptr || context.options.parameter_device == ParameterDevice::kGpu) {
    return values.clone();
  }
  return context.accelerator->pinned(values.sizes(), values.scalar_type()).copy_(values);
}

/// The asynchronous parameter server: tensorpack's AsyncMultiGPUTrainer, and distributed TensorFlow without
/// cross_replica_sync; Dean et al. 2012, "Large Scale Distributed Deep Networks" (Downpour SGD).
///
/// Every rank is a worker and never waits for other workers. Before forward it fetches the current values
/// from every owner; a full bucket of gradients goes to its owner during backward (after it with `overlap`
/// off). A thread of the owner (GradientServer) applies every gradient when it arrives. In a step of the job,
/// all ranks together send gradients of (N - 1) P bytes and values of (N - 1) P bytes, as messages, each
/// announced by a Notice of 24 bytes:
///
///     worker                              owner's thread
///       kFetch               ------->       copies the values
///       values               <-------
///       forward, backward
///       kGradient, gradient  ------->       updates the bucket        (B times)
///
/// Owners and buckets are those of the synchronous server. Gradients are divided by the number of ranks, and
/// so is the weight decay: the N updates of a step together do what one update of the synchronous server does
/// (tensorpack's scale_gradient). Messages go over a communicator of their own, so that they do not mix with
/// collectives.
///
/// finish() is collective: a rank that is done serves the others until all are done, and then all fetch the
/// same values. The destructor abandons messages in flight, without communicating.
///
/// Measures fetch_s (waiting for values before forward), gradients_sent, gradients_applied (buckets) and
/// staleness: the number of updates of a bucket between the fetch with which a gradient was computed and its
/// application, as mean and maximum. On a GPU, the communicator stages messages through host memory, and the
/// owner's thread has a stream of its own; with `parameter_device` cpu the owner keeps and updates its
/// variables in host memory.
class AsyncParameterServer final : public Strategy {
 public:
  explicit AsyncParameterServer(const StrategyContext& context)
      : channel_(able_to_receive_from_any(*context.communicator)),
        activities_(context.activities),
        owners_(choose_owners(context)),
        memory_(context.parameters, order_by_owner(owners_)),
        filler_(context.parameters, memory_, 1.0 / channel_.size(), context.options.overlap,
                [this](size_t bucket) { send(bucket); }) {
    const at::NoGradGuard no_grad;
    memory_.keep_momenta_of({});
    for (int rank = 0; rank < channel_.size(); ++rank) owned_.push_back(owned_range(memory_, owners_, rank));
    filler_.set_plan(plan_owned_buckets(memory_, owners_, channel_.size(), context.options.bucket_bytes()));
    const replica::Range own = owned_by(channel_.rank());
    std::vector<replica::Range> places;
    for (const Bucket& bucket : filler_.buckets()) {
      const bool mine = owner_of(bucket, owners_) == channel_.rank();
      places.push_back(mine ? replica::Range{bucket.range.begin - own.begin, bucket.range.end - own.begin}
                            : replica::Range{});
    }
    // A step of the job applies N gradients of 1/N each, so each must bring 1/N of the weight decay.
    replica::SgdOptions optimizer = context.optimizer;
    optimizer.weight_decay /= channel_.size();
    server_ = std::make_unique<GradientServer>(channel_, variables(memory_.values(own), context),
                                               std::move(places), optimizer, context.accelerator);
  }

  ~AsyncParameterServer() override {
    server_->stop();
    // The channel goes first, because its operations may still write to members.
    channel_.close();
  }

  void begin_step() override {
    server_->check();
    if (!training_) server_->open();
    training_ = true;
    const double begin_s = now_s();
    {
      const ActivityScope fetching(channel_.size() > 1 ? activities_ : nullptr, Activity::kCommunicating);
      fetch();
    }
    fetch_s_ += now_s() - begin_s;
    filler_.begin_step();
  }

  void before_backward(bool last) override { filler_.begin_backward(last); }

  void combine() override {
    filler_.finish();
    wait_for_sent();
    ++steps_;
  }

  // The owners apply the optimizer.
  void apply() override {}

  void set_learning_rate(double rate) override { server_->set_learning_rate(rate); }

  void finish() override {
    if (!training_) return;
    for (int owner = 0; owner < channel_.size(); ++owner) {
      if (asks(owner)) notify(owner, {Notice::kDone});
    }
    wait_for_sent();
    server_->wait_until_done();
    training_ = false;
    // An owner gets here after it has applied all gradients, so these values are final.
    fetch_own();
    for (int owner = 0; owner < channel_.size(); ++owner) {
      if (owned_by(owner).count() > 0) {
        const at::Tensor values = memory_.values(owned_by(owner));
        wait_for(*channel_.broadcast(buffer_of(values), owner), values);
      }
    }
  }

  void save(replica::State& state) override {
    state.add("order", memory_.order());
    server_->save(state);
  }

  void restore(const replica::State& state) override {
    memory_.reorder(state.numbers("order"));
    server_->restore(state);
  }

  int64_t momentum_bytes() const override { return server_->momentum_bytes(); }
  int64_t buffer_bytes() const override { return server_->buffer_bytes(); }

  std::vector<Measured> measured() const override {
    using enum Measured::Over;
    const GradientServer::Counts counts = server_->counts();
    const auto applied = static_cast<double>(counts.applied);
    const double mean = counts.applied > 0 ? static_cast<double>(counts.staleness_sum) / applied : 0;
    return {{"fetch_s", fetch_s_},
            {"gradients_sent", static_cast<double>(sent_), kJob},
            {"gradients_applied", applied, kJob},
            {"staleness", mean, kMean, applied},
            {"staleness", static_cast<double>(counts.staleness_most), kMost}};
  }

 private:
  const replica::Range& owned_by(int rank) const { return owned_[static_cast<size_t>(rank)]; }
  /// Whether that rank owns variables that must be fetched by messages.
  bool asks(int owner) const { return owner != channel_.rank() && owned_by(owner).count() > 0; }

  void notify(int owner, const Notice& notice) {
    notices_.push_back(notice);
    auto& words = notices_.back().words;
    works_.push_back(channel_.send(comm::host_buffer(words.data(), words.size()), owner, Notice::kNoticeTag));
  }

  void wait_for_sent() {
    for (const comm::WorkPtr& work : works_) work->wait();
    works_.clear();
    notices_.clear();
  }

  void fetch_own() {
    if (owned_by(channel_.rank()).count() > 0) server_->fetch(memory_.values(owned_by(channel_.rank())));
  }

  void fetch() {
    for (int owner = 0; owner < channel_.size(); ++owner) {
      if (!asks(owner)) continue;
      works_.push_back(
          channel_.receive(buffer_of(memory_.values(owned_by(owner))), owner, Notice::kValuesTag));
      notify(owner, {Notice::kFetch});
    }
    fetch_own();
    wait_for_sent();
  }

  void send(size_t bucket) {
    const Bucket& full = filler_.buckets()[bucket];
    const int owner = owner_of(full, owners_);
    const at::Tensor gradient = memory_.gradients(full.range);
    ++sent_;
    if (owner == channel_.rank()) {
      const ActivityScope applying(activities_, Activity::kApplying);
      server_->apply(bucket, steps_, gradient);
      return;
    }
    notify(owner, {Notice::kGradient, static_cast<int64_t>(bucket), steps_});
    works_.push_back(channel_.send(buffer_of(gradient), owner, Notice::kGradientTag));
  }

  MessageChannel channel_;
  ActivityListener* activities_;
  /// The owner of each parameter.
  std::vector<int> owners_;
  replica::FlatMemory memory_;
  BucketFiller filler_;
  /// The range of each rank.
  std::vector<replica::Range> owned_;
  std::unique_ptr<GradientServer> server_;
  /// Messages in flight. A deque, because its elements do not move.
  std::vector<comm::WorkPtr> works_;
  std::deque<Notice> notices_;
  /// Whether a step has begun since the last finish().
  bool training_ = false;
  int64_t steps_ = 0;
  int64_t sent_ = 0;
  double fetch_s_ = 0;
};

}  // namespace

std::unique_ptr<Strategy> create_async_parameter_server(const StrategyContext& context) {
  return std::make_unique<AsyncParameterServer>(context);
}

}  // namespace lockstep::strategies
