#include "lockstep/train/step/issued_steps.h"

#include <utility>

#include <ATen/core/grad_mode.h>

namespace lockstep::train {

IssuedSteps::IssuedSteps(replica::Accelerator* accelerator, const StepClock& clock)
    : accelerator_(accelerator), clock_(clock) {
  if (accelerator_ == nullptr) return;
  for (size_t i = 0; i <= kMostAhead; ++i) {
    readbacks_.push_back({accelerator_->pinned({}, at::kFloat), accelerator_->pinned({}, at::kLong)});
  }
}

void IssuedSteps::add(IssuedStep step, const StepOutcome& outcome) {
  if (accelerator_ == nullptr) {
    step.loss = outcome.loss.item<float>();
    if (outcome.hits.defined()) step.hits = outcome.hits.item<int64_t>();
  } else {
    const at::NoGradGuard no_grad;
    const Readback& readback = readbacks_[added_++ % readbacks_.size()];
    // Copied in the stream, before the mark at the step's end: whoever has waited for that mark may read
    // them.
    readback.loss.copy_(outcome.loss, /*non_blocking=*/true);
    if (outcome.hits.defined()) readback.hits.copy_(outcome.hits, /*non_blocking=*/true);
  }
  step.at.end = clock_.now();
  issued_.push_back(std::move(step));
}

IssuedStep IssuedSteps::finish_oldest() {
  IssuedStep step = std::move(issued_.front());
  issued_.pop_front();
  clock_.wait_for(step.at.end);
  if (accelerator_ != nullptr) {
    const Readback& readback = readbacks_[(added_ - issued_.size() - 1) % readbacks_.size()];
    step.loss = readback.loss.item<float>();
    step.hits = readback.hits.item<int64_t>();
  }
  return step;
}

}  // namespace lockstep::train
