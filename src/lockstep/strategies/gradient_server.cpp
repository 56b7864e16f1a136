#include "lockstep/strategies/gradient_server.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/StreamGuard.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/helper_thread.h"
#include "lockstep/replica/own_stream.h"
#include "lockstep/strategies/tensor_buffer.h"

namespace lockstep::strategies {
namespace {

/// Thrown in the server's thread to stop it.
struct ServerStopped {};

}  // namespace

GradientServer::GradientServer(MessageChannel& channel, at::Tensor values,
                               std::vector<replica::Range> buckets, const replica::SgdOptions& optimizer,
                               replica::Accelerator* accelerator)
    : channel_(channel),
      buckets_(std::move(buckets)),
      accelerator_(accelerator),
      optimizer_(optimizer),
      values_(std::move(values)),
      momenta_(at::zeros_like(values_)),
      turns_(values_.device()),
      versions_(buckets_.size(), 0),
      fetched_(static_cast<size_t>(channel.size()), std::vector<int64_t>(buckets_.size(), 0)),
      applied_(fetched_) {
  if (channel_.size() == 1 || values_.numel() == 0) return;
  int64_t largest = 0;
  for (const replica::Range& bucket : buckets_) largest = std::max(largest, bucket.count());
  gradient_ = at::empty({largest}, values_.options());
  reply_ = at::empty_like(values_);
  turns_.end();
  thread_ = std::thread([this] { run(); });
}

GradientServer::~GradientServer() {
  stop();
}

void GradientServer::stop() {
  {
    const std::lock_guard lock(point_->mutex);
    point_->stopping = true;
    point_->changed.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void GradientServer::open() {
  if (!thread_.joinable()) return;
  const std::lock_guard lock(point_->mutex);
  open_ = true;
  point_->changed.notify_all();
}

void GradientServer::set_learning_rate(double rate) {
  const std::lock_guard lock(point_->mutex);
  optimizer_.set_learning_rate(rate);
}

void GradientServer::wait_until_done() {
  std::unique_lock lock(point_->mutex);
  point_->changed.wait(lock, [this] { return !open_ || failure_; });
  if (failure_) std::rethrow_exception(failure_);
}

void GradientServer::check() {
  const std::lock_guard lock(point_->mutex);
  if (failure_) std::rethrow_exception(failure_);
}

GradientServer::Counts GradientServer::counts() const {
  const std::lock_guard lock(point_->mutex);
  return counts_;
}

void GradientServer::save(replica::State& state) const {
  const std::lock_guard lock(point_->mutex);
  state.add("momenta", momenta_);
}

void GradientServer::restore(const replica::State& state) {
  const std::lock_guard lock(point_->mutex);
  state.copy_to("momenta", momenta_);
  begun_ = true;
}

void GradientServer::run() {
  comm::set_up_helper_thread("ls-server");
  at::set_num_threads(1);
  try {
    std::optional<replica::OwnStream> own_stream;
    std::optional<c10::StreamGuard> in_stream;
    if (accelerator_ != nullptr && !accelerator_->device().is_cpu()) {
      accelerator_->enter_thread();
      // In the training thread's stream, a request would wait for a whole step of this rank.
      own_stream.emplace(accelerator_->device());
      in_stream.emplace(own_stream->get());
      begin_in(own_stream->get());
    }
    while (true) {
      {
        std::unique_lock lock(point_->mutex);
        point_->changed.wait(lock, [this] { return point_->stopping || open_; });
        if (point_->stopping) return;
      }
      serve_session();
      const std::lock_guard lock(point_->mutex);
      open_ = false;
      point_->changed.notify_all();
    }
  } catch (const ServerStopped&) {
  } catch (...) {
    const std::lock_guard lock(point_->mutex);
    failure_ = std::current_exception();
    point_->changed.notify_all();
  }
}

void GradientServer::begin_in(c10::Stream stream) {
  const std::lock_guard lock(point_->mutex);
  // These were allocated in the training thread's stream; without this, LibTorch would reuse their memory
  // when that stream is done with it.
  for (const at::Tensor& tensor : {values_, momenta_, gradient_, reply_}) {
    if (tensor.is_cuda()) tensor.record_stream(stream);
  }
  turns_.begin();
}

void GradientServer::serve_session() {
  for (int done = 0; done < channel_.size() - 1;) {
    const comm::WorkPtr work = channel_.receive_any(
        comm::host_buffer(notice_.words.data(), notice_.words.size()), Notice::kNoticeTag);
    wait(*work);
    if (notice_.words[0] == Notice::kDone) {
      ++done;
    } else {
      handle(notice_, work->source());
    }
  }
}

void GradientServer::handle(const Notice& notice, int worker) {
  if (notice.words[0] == Notice::kFetch) {
    fetch_of(worker, reply_);
    wait(*channel_.send(buffer_of(reply_), worker, Notice::kValuesTag));
    return;
  }
  const auto bucket = static_cast<size_t>(notice.words[1]);
  const at::Tensor gradient = gradient_.narrow(0, 0, buckets_.at(bucket).count());
  wait(*channel_.receive(buffer_of(gradient), worker, Notice::kGradientTag));
  apply_of(worker, bucket, notice.words[2], gradient);
}

void GradientServer::apply_of(int worker, size_t bucket, int64_t number, const at::Tensor& given) {
  const at::NoGradGuard no_grad;
  const at::Tensor gradient = given.to(values_.device());
  const std::lock_guard lock(point_->mutex);
  const auto index = static_cast<size_t>(worker);
  if (number != applied_[index][bucket]) {
    throw Error(fmt::format("gradient {} of bucket {} came from rank {}, but {} of them were applied",
                            number + 1, bucket + 1, worker, applied_[index][bucket]),
                "Each is to be applied exactly once: please report this.");
  }
  const replica::Range range = buckets_[bucket];
  turns_.begin();
  replica::fused_sgd({values_.slice(0, range.begin, range.end)}, {gradient},
                     {momenta_.slice(0, range.begin, range.end)}, optimizer_,
                     !begun_ && versions_[bucket] == 0);
  turns_.end();
  const int64_t staleness = versions_[bucket] - fetched_[index][bucket];
  ++versions_[bucket];
  ++applied_[index][bucket];
  ++counts_.applied;
  counts_.staleness_sum += staleness;
  counts_.staleness_most = std::max(counts_.staleness_most, staleness);
}

void GradientServer::fetch_of(int worker, const at::Tensor& into) {
  const at::NoGradGuard no_grad;
  const std::lock_guard lock(point_->mutex);
  turns_.begin();
  into.copy_(values_);
  turns_.end();
  fetched_[static_cast<size_t>(worker)] = versions_;
}

void GradientServer::wait(comm::Work& work) {
  if (!comm::wait_unless_stopping(work, point_)) throw ServerStopped{};
}

}  // namespace lockstep::strategies
