#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/results/tables/tables.h"

namespace lockstep::results {
namespace {

/// Widths of the columns, the same for head and lines, which are printed as they come.
constexpr const char* kLine = "{:>5}  {:>8}  {:>10}  {:>9}  {:>10}  {:>9}  {:>10}  {:>9}\n";

}  // namespace

std::string epochs_head() {
  return fmt::format(fmt::runtime(kLine), "epoch", "steps", "rate", "loss", "accuracy", "eval loss",
                     "eval acc.", "images/s");
}

std::string epoch_line(const EpochRecord& epoch) {
  return fmt::format(fmt::runtime(kLine), epoch.epoch, epoch.steps,
                     format_number(epoch.learning_rate, 4, 1e-7), fmt::format("{:.4f}", epoch.loss),
                     percent_text(epoch.training_accuracy, 2), fixed_text(epoch.evaluation_loss, 4),
                     percent_text(epoch.evaluation_accuracy, 2), fixed_text(epoch.images_per_s, 1));
}

}  // namespace lockstep::results
