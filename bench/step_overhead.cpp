// Time that lockstep adds to a training step: stamping, bookkeeping and the strategy's hooks, against the
// bare loop of the same network, loss and optimizer; what keeping every step's time adds (so that a run which
// is killed loses none), and what the stamps of --breakdown add; and the same where steps are issued ahead
// and stamped by marks in a queue, as on a GPU, with a thread in the GPU's place (what a GPU's own calls take
// comes on top). Blocks of both alternate in one process; printed are the medians over the blocks of each
// block's median step, and the difference with the 2.5 % and 97.5 % quantiles of a bootstrap over blocks.
//
//   step_overhead [MODEL=trivial] [BATCH=1] [IMAGE_SIZE=32] [BLOCKS=15] [STEPS_PER_BLOCK=200]

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <ATen/Parallel.h>

#include "lockstep/base/allocator.h"
#include "lockstep/base/clock.h"
#include "lockstep/comm/backend.h"
#include "lockstep/comm/store.h"
#include "lockstep/train/step/step_loop.h"

#include "train/host_accelerator.h"

namespace {

using namespace lockstep;

constexpr double kLearningRate = 1e-4;

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

/// One replica with what it takes to train it.
class Bench {
 public:
  /// `accelerator`: what steps are issued to; null: the CPU.
  Bench(const std::string& model, const std::string& strategy, int batch, int image_size,
        replica::Accelerator* accelerator = nullptr)
      : accelerator_(accelerator) {
    const models::ModelInfo& info = models::registry().get(model);
    model_ = info.create({});
    input_ = inputs::registry().get("device").create(
        {.batch = batch, .channels = info.channels, .image_size = image_size, .classes = info.classes});
    optimizer_ = std::make_unique<replica::Sgd>(model_->parameters().tensors(),
                                                replica::SgdOptions{.learning_rate = kLearningRate});
    communicator_ = comm::connect("thread", {.rank = 0, .size = 1, .store = &store_, .interface = ""});
    tracer_.emplace(*communicator_);
    strategy_ = strategies::registry().get(strategy).create({.parameters = model_->parameters(),
                                                             .optimizer = {.learning_rate = kLearningRate},
                                                             .communicator = &*tracer_,
                                                             .options = {}});
  }

  double bare_median_s(int steps) {
    std::vector<double> durations_s;
    for (int i = 0; i < steps; ++i) {
      const double begin_s = now_s();
      optimizer_->clear_gradients();
      const inputs::Batch& batch = input_->next();
      models::cross_entropy(model_->forward(batch.images, {}), batch.labels).backward();
      optimizer_->step();
      durations_s.push_back(now_s() - begin_s);
    }
    return median(durations_s);
  }

  double lockstep_median_s(int steps) { return median(train(steps, /*stamped=*/false)); }

  /// With every step's time on a board that other processes may read, as in `lockstep bench`.
  double kept_median_s(int steps) {
    progress_.keep_times(board_.take(0));
    const double kept_s = median(train(steps, /*stamped=*/false));
    progress_.keep_times(nullptr);
    return kept_s;
  }

  double stamped_median_s(int steps) {
    tracer_->forget_stamps();
    return median(train(steps, /*stamped=*/true));
  }

 private:
  std::vector<double> train(int steps, bool stamped) {
    const train::StepLoopOptions options{.pacing = {.warmup_steps = 0, .steps = steps}, .coupled = true};
    return train::run_steps({.model = *model_,
                             .input = *input_,
                             .strategy = *strategy_,
                             .stamp_phases = stamped,
                             .tracer = stamped ? &*tracer_ : nullptr,
                             .accelerator = accelerator_},
                            options, progress_)
        .step_s;
  }

  replica::Accelerator* accelerator_;
  comm::HashStore store_;
  std::unique_ptr<models::Model> model_;
  std::unique_ptr<inputs::Input> input_;
  std::unique_ptr<replica::Sgd> optimizer_;
  std::unique_ptr<comm::Communicator> communicator_;
  std::optional<train::TracedCommunicator> tracer_;
  std::unique_ptr<strategies::Strategy> strategy_;
  launch::Progress progress_;
  launch::StepBoard board_ = launch::StepBoard::make(1);
};

/// Median step of so many steps.
using Block = std::function<double(int steps)>;

void compare(const std::string& what, const Block& plain, const Block& measured, int blocks, int steps) {
  plain(steps);
  measured(steps);
  std::vector<double> plain_s, measured_s, added_s;
  for (int i = 0; i < blocks; ++i) {
    plain_s.push_back(plain(steps));
    measured_s.push_back(measured(steps));
    added_s.push_back(measured_s.back() - plain_s.back());
  }
  std::mt19937 random(1);
  std::uniform_int_distribution<size_t> pick(0, added_s.size() - 1);
  std::vector<double> medians_s;
  for (int i = 0; i < 2000; ++i) {
    std::vector<double> sample(added_s.size());
    std::generate(sample.begin(), sample.end(), [&] { return added_s[pick(random)]; });
    medians_s.push_back(median(sample));
  }
  std::sort(medians_s.begin(), medians_s.end());
  fmt::print("{:<32} {:10.1f} us -> {:10.1f} us  added {:8.1f} us [{:.1f}, {:.1f}] = {:.3f} %\n", what,
             median(plain_s) * 1e6, median(measured_s) * 1e6, median(added_s) * 1e6, medians_s[50] * 1e6,
             medians_s[1950] * 1e6, 100 * median(added_s) / median(plain_s));
}

int argument(int argc, char** argv, int index, int otherwise) {
  return argc > index ? std::atoi(argv[index]) : otherwise;
}

}  // namespace

int main(int argc, char** argv) {
  keep_freed_pages();
  at::set_num_threads(1);
  const std::string model = argc > 1 ? argv[1] : "trivial";
  const int batch = argument(argc, argv, 2, 1);
  const int image_size = argument(argc, argv, 3, 32);
  const int blocks = argument(argc, argv, 4, 15);
  const int steps = argument(argc, argv, 5, 200);
  for (const std::string strategy : {"single", "ddp"}) {
    // A replica each: a ddp strategy leaves its hooks on the parameters.
    Bench plain(model, "single", batch, image_size);
    Bench measured(model, strategy, batch, image_size);
    compare(
        model + ", bare -> " + strategy, [&](int n) { return plain.bare_median_s(n); },
        [&](int n) { return measured.lockstep_median_s(n); }, blocks, steps);
    compare(
        model + ", " + strategy + " -> steps kept", [&](int n) { return measured.lockstep_median_s(n); },
        [&](int n) { return measured.kept_median_s(n); }, blocks, steps);
    compare(
        model + ", " + strategy + " -> breakdown", [&](int n) { return measured.lockstep_median_s(n); },
        [&](int n) { return measured.stamped_median_s(n); }, blocks, steps);
  }
  test::HostAccelerator queue;
  Bench plain(model, "single", batch, image_size);
  Bench issued(model, "single", batch, image_size, &queue);
  compare(
      model + ", bare -> issued ahead", [&](int n) { return plain.bare_median_s(n); },
      [&](int n) { return issued.lockstep_median_s(n); }, blocks, steps);
  compare(
      model + ", issued -> breakdown", [&](int n) { return issued.lockstep_median_s(n); },
      [&](int n) { return issued.stamped_median_s(n); }, blocks, steps);
}
