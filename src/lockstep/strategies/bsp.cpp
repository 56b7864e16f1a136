#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "lockstep/base/clock.h"
#include "lockstep/strategies/catalog.h"
#include "lockstep/strategies/tensor_buffer.h"

namespace lockstep::strategies {
namespace {

/// A flat view of a dense tensor's memory, regardless of its strides.
at::Tensor flat(const at::Tensor& tensor) {
  return tensor.as_strided({tensor.numel()}, {1});
}

/// A buffer that grows to the size of the largest tensor.
class Scratch {
 public:
  explicit Scratch(at::ScalarType dtype) : dtype_(dtype) {}

  at::Tensor get(int64_t count, at::Device device) {
    if (!memory_.defined() || memory_.numel() < count) {
      memory_ = at::empty({count}, at::TensorOptions(device).dtype(dtype_));
    }
    return memory_.slice(0, 0, count);
  }

  int64_t bytes() const { return memory_.defined() ? static_cast<int64_t>(memory_.nbytes()) : 0; }

 private:
  at::ScalarType dtype_;
  at::Tensor memory_;
};

/// Sums a tensor over all ranks, as Theano-MPI's exchangers do: one tensor at a time. Every rank gets the
/// same bits. Bytes per step, with P the parameters in fp32 and P' padded to multiples of N:
///
///     ar        all-reduce of a copy in host memory, for which the host waits    P
///     nccl32    the backend's all-reduce in place                                P
///     nccl16    the backend's all-reduce of a copy in fp16                       P/2
///     asa32     all-to-all, local sum in fp32, all-gather; fp32 on the wire      2 P'
///     asa16     the same with fp16 on the wire                                   P'
///
/// `wire` replaces fp32 in ar, nccl32 and asa32.
class Exchanger {
 public:
  explicit Exchanger(const StrategyContext& context)
      : exchange_(context.options.exchange),
        group_(*context.communicator),
        host_group_(context.host_communicator()),
        wire_(sends_fp16(exchange_) ? at::kHalf : scalar_type_of(context.options.wire)),
        copy_(wire_),
        theirs_(wire_),
        sum_(at::kFloat) {}

  /// Overwrites a dense fp32 tensor by its sum over all ranks; on a GPU in the calling thread's stream.
  /// Collective.
  void sum(const at::Tensor& tensor) {
    switch (exchange_) {
      case Exchange::kAr:
        return sum_copy(tensor, host_group_, at::kCPU);
      case Exchange::kNccl32:
      case Exchange::kNccl16:
        if (wire_ != at::kFloat) return sum_copy(tensor, group_, tensor.device());
        return wait_for(*group_.all_reduce(buffer_of(tensor), comm::ReduceOp::kSum), tensor);
      case Exchange::kAsa32:
      case Exchange::kAsa16:
        return sum_parts(tensor);
    }
  }

  /// Size of the buffers once the largest tensor has been summed.
  int64_t buffer_bytes() const { return copy_.bytes() + theirs_.bytes() + sum_.bytes(); }

 private:
  /// An all-reduce of a copy in another type or in host memory, which `group` must accept.
  void sum_copy(const at::Tensor& tensor, comm::Communicator& group, at::Device device) {
    const at::Tensor copy = copy_.get(tensor.numel(), device);
    // Copies to and from the host wait for the device.
    copy.copy_(flat(tensor));
    wait_for(*group.all_reduce(buffer_of(copy), comm::ReduceOp::kSum), copy);
    flat(tensor).copy_(copy);
  }

  /// An all-reduce made of an all-to-all, a local sum in fp32, and an all-gather. With N ranks, each sums one
  /// part:
  ///
  ///     mine      | part 0 | part 1 | ... | part N-1 |       this rank's tensor, padded to N equal parts
  ///     theirs    | mine of rank 0 | mine of rank 1 | ...    all-to-all: this rank's part of every tensor
  ///     sum       | part |                                   fp32, whatever the type on the wire
  ///     mine      | part 0 | part 1 | ... | part N-1 |       all-gather: all sums
  void sum_parts(const at::Tensor& tensor) {
    const int64_t ranks = group_.size();
    const int64_t part = (tensor.numel() + ranks - 1) / ranks;
    const at::Tensor mine = copy_.get(part * ranks, tensor.device());
    mine.slice(0, 0, tensor.numel()).copy_(flat(tensor));
    mine.slice(0, tensor.numel()).zero_();
    const at::Tensor theirs = theirs_.get(part * ranks, tensor.device());
    wait_for(*group_.all_to_all(buffer_of(mine), buffer_of(theirs)), theirs);
    const at::Tensor sum = sum_.get(part, tensor.device());
    sum.copy_(theirs.slice(0, 0, part));
    for (int64_t rank = 1; rank < ranks; ++rank) sum.add_(theirs.slice(0, rank * part, (rank + 1) * part));
    // The own part is rounded to the wire's type as well, so that all ranks have the same bits.
    const at::Tensor own = mine.slice(0, group_.rank() * part, (group_.rank() + 1) * part);
    own.copy_(sum);
    wait_for(*group_.all_gather(buffer_of(own), buffer_of(mine)), mine);
    flat(tensor).copy_(mine.slice(0, 0, tensor.numel()));
  }

  Exchange exchange_;
  comm::Communicator& group_;
  comm::Communicator& host_group_;
  at::ScalarType wire_;
  Scratch copy_, theirs_, sum_;
};

/// The bulk synchronous rule of Theano-MPI (Ma et al. 2016, "Theano-MPI: a Theano-based Distributed Training
/// Framework"): after backward a local update, a barrier, and then an exchange of every tensor, one after the
/// other. Nothing overlaps.
///
/// Sends, in each step, one message per tensor (two for `exchange` asa32 and asa16), of P bytes in total for
/// an all-reduce in fp32, where P is the size of the parameters; see Exchanger.
///
/// - `bsp_sync` cdd (CombinedMomenta): every rank updates its own momenta, their means over the ranks are
///   exchanged, and parameters follow the means. A rank's momenta stay its own; because momenta are linear in
///   the gradients, the mean is what one momentum of the mean gradient would be. Theano-MPI uses the sum.
/// - `bsp_sync` avg (AveragedParameters): every rank applies the optimizer to its parameters, and these are
///   averaged.
///
/// On a GPU the host waits for the device before the barrier and after the exchange. Measures train_s (from
/// the beginning of a step to the barrier), synchronisation_s (the barrier) and communication_s (the
/// exchange). Parameters are broadcast from rank 0 at the start, batch-norm buffers never.
class Bsp : public Strategy {
 public:
  explicit Bsp(const StrategyContext& context)
      : optimizer_(context.parameters.tensors(), context.optimizer),
        group_(*context.communicator),
        control_(context.host_communicator()),
        accelerator_(context.accelerator),
        activities_(context.activities),
        exchanger_(context) {
    for (const at::Tensor& tensor : optimizer_.parameters()) broadcast_from_rank_0(group_, tensor.detach());
  }

  void begin_step() override {
    begin_s_ = now_s();
    optimizer_.clear_gradients();
  }

  void combine() override {
    const at::NoGradGuard no_grad;
    {
      const ActivityScope applying(activities_, Activity::kApplying);
      update_locally();
      let_device_finish();
    }
    const double trained_s = now_s();
    control_.barrier()->wait();
    const double together_s = now_s();
    for (const at::Tensor& tensor : exchanged()) exchanger_.sum(tensor);
    let_device_finish();
    train_s_ += trained_s - begin_s_;
    synchronisation_s_ += together_s - trained_s;
    communication_s_ += now_s() - together_s;
  }

  void set_learning_rate(double rate) override { optimizer_.set_learning_rate(rate); }

  void save(replica::State& state) override { optimizer_.save(state); }
  void restore(const replica::State& state) override { optimizer_.restore(state); }

  int64_t momentum_bytes() const override { return optimizer_.momentum_bytes(); }
  std::vector<at::Tensor> equal_on_all_ranks() const override { return exchanged(); }
  int64_t buffer_bytes() const override { return exchanger_.buffer_bytes(); }

  std::vector<Measured> measured() const override {
    return {{"train_s", train_s_},
            {"synchronisation_s", synchronisation_s_},
            {"communication_s", communication_s_}};
  }

 protected:
  /// Updates this rank's replica and leaves its part of the mean in exchanged(): values divided by the number
  /// of ranks.
  virtual void update_locally() = 0;
  virtual std::vector<at::Tensor> exchanged() const = 0;

  double share() const { return 1.0 / group_.size(); }

  replica::Sgd optimizer_;

 private:
  /// Waits for the device, because a rank may enter the barrier only after it has trained, and times are the
  /// host's.
  void let_device_finish() {
    if (accelerator_ != nullptr) accelerator_->wait(*accelerator_->mark());
  }

  comm::Communicator& group_;
  comm::Communicator& control_;
  replica::Accelerator* accelerator_;
  ActivityListener* activities_;
  Exchanger exchanger_;
  double begin_s_ = 0;
  /// Sums over the steps, as measured() reports them.
  double train_s_ = 0, synchronisation_s_ = 0, communication_s_ = 0;
};

class CombinedMomenta final : public Bsp {
 public:
  using Bsp::Bsp;

  void apply() override { optimizer_.follow_directions(); }

 private:
  // The gradients are not needed any more, so their memory takes the directions, which are exchanged.
  void update_locally() override { optimizer_.make_directions(share()); }

  std::vector<at::Tensor> exchanged() const override {
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : optimizer_.parameters()) gradients.push_back(parameter.grad());
    return gradients;
  }
};

class AveragedParameters final : public Bsp {
 public:
  using Bsp::Bsp;

  // The local update comes before the exchange.
  void apply() override {}

 private:
  void update_locally() override {
    optimizer_.step();
    for (const at::Tensor& parameter : optimizer_.parameters()) parameter.detach().mul_(share());
  }

  std::vector<at::Tensor> exchanged() const override {
    std::vector<at::Tensor> values;
    for (const at::Tensor& parameter : optimizer_.parameters()) values.push_back(parameter.detach());
    return values;
  }
};

}  // namespace

std::unique_ptr<Strategy> create_bsp(const StrategyContext& context) {
  if (context.options.bsp_sync == BspSync::kAvg) return std::make_unique<AveragedParameters>(context);
  return std::make_unique<CombinedMomenta>(context);
}

}  // namespace lockstep::strategies
