#include "lockstep/collectives/compute_load.h"

#include <array>
#include <mutex>

#include "lockstep/base/clock.h"
#include "lockstep/measure/series.h"

namespace lockstep::collectives {

/// The work of one thread.
class ComputeLoad::Blocks {
 public:
  void compute() {
    multiply();
    pass_over_memory();
  }

 private:
  static constexpr size_t kSide = 64;
  using Matrix = std::array<float, kSide * kSide>;

  void multiply() {
    for (size_t row = 0; row < kSide; ++row) {
      for (size_t inner = 0; inner < kSide; ++inner) {
        const float factor = a_[row * kSide + inner];
        for (size_t column = 0; column < kSide; ++column)
          c_[row * kSide + column] += factor * b_[inner * kSide + column];
      }
    }
    for (float& value : c_) value *= 0.5F;
    // Without it, the compiler could leave the product out.
    result_ = c_[next_ % c_.size()];
  }

  void pass_over_memory() {
    constexpr size_t kFloats = 4096;
    float* const begin = memory_.data() + next_;
    for (size_t i = 0; i < kFloats; ++i) begin[i] = begin[i] * 0.5F + 1;
    next_ = (next_ + kFloats) % memory_.size();
  }

  static Matrix filled(float value) {
    Matrix matrix;
    matrix.fill(value);
    return matrix;
  }

  Matrix a_ = filled(0.5F), b_ = filled(0.01F), c_ = filled(0);
  volatile float result_ = 0;
  std::vector<float> memory_ = std::vector<float>(size_t{8} << 20, 1.F);
  size_t next_ = 0;
};

ComputeLoad::ComputeLoad(int threads) : own_(std::make_unique<Blocks>()) {
  for (int i = 1; i < threads; ++i) {
    others_.emplace_back([this] {
      Blocks blocks;
      while (!ending_) {
        if (!computing_) computing_.wait(false);
        if (!ending_) blocks.compute();
      }
    });
  }
}

ComputeLoad::~ComputeLoad() {
  ending_ = computing_ = true;
  computing_.notify_all();
  for (std::thread& other : others_) other.join();
}

void ComputeLoad::time_alone() {
  computing_ = true;
  computing_.notify_all();
  constexpr double kEnough_s = 0.03;
  std::vector<double> blocks_s;
  for (const double begin_s = now_s(); now_s() < begin_s + kEnough_s;) {
    const double block_s = now_s();
    own_->compute();
    blocks_s.push_back(now_s() - block_s);
  }
  computing_ = false;
  alone_s_ = measure::median_of(blocks_s);
}

double ComputeLoad::until_complete(std::span<const comm::WorkPtr> works, double begin_s) {
  struct Completion {
    std::mutex mutex;
    size_t left;
    double at_s = 0;
    std::atomic<bool> all{false};
  };
  // Shared with the callbacks, which may still run when this has returned.
  const auto completion = std::make_shared<Completion>();
  completion->left = works.size();
  for (const comm::WorkPtr& work : works) {
    work->on_complete([completion] {
      const std::lock_guard lock(completion->mutex);
      completion->at_s = now_s();
      if (--completion->left == 0) completion->all = true;
    });
  }
  computing_ = true;
  computing_.notify_all();
  double blocks = 0;
  for (; !completion->all; ++blocks) own_->compute();
  computing_ = false;
  busy_s_ += completion->at_s - begin_s;
  lost_s_ += now_s() - begin_s - blocks * alone_s_;
  return completion->at_s;
}

}  // namespace lockstep::collectives
