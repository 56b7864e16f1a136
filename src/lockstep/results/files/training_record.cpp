#include "lockstep/results/files/training_record.h"

#include <fmt/format.h>

#include "lockstep/base/json_codec.h"
#include "lockstep/base/units.h"

namespace lockstep::results {
namespace {

/// Raised when a key changes its meaning; new keys do not need it.
constexpr int kTrainingSchemaVersion = 1;

/// The number in `form`; "-" where nothing was evaluated.
std::string number(const std::optional<double>& value, const char* form) {
  return value ? fmt::format(fmt::runtime(form), *value) : "-";
}

/// "94.12 %", or "-".
std::string share(const std::optional<double>& value) {
  return value ? fmt::format("{:.2f} %", 100 * *value) : "-";
}

/// Widths of the columns, the same for head and lines, which are printed as they come.
constexpr const char* kLine = "{:>5}  {:>8}  {:>10}  {:>9}  {:>10}  {:>9}  {:>10}  {:>9}\n";

}  // namespace

std::string to_json(const TrainingRecord& record) {
  Json json{{"schema", "lockstep training"}, {"schema_version", kTrainingSchemaVersion}};
  json.update(encode(record));
  return json_text(json);
}

std::string epochs_head() {
  return fmt::format(fmt::runtime(kLine), "epoch", "steps", "rate", "loss", "accuracy", "eval loss",
                     "eval acc.", "images/s");
}

std::string epoch_line(const EpochRecord& epoch) {
  return fmt::format(fmt::runtime(kLine), epoch.epoch, epoch.steps,
                     format_number(epoch.learning_rate, 4, 1e-7), fmt::format("{:.4f}", epoch.loss),
                     share(epoch.training_accuracy), number(epoch.evaluation_loss, "{:.4f}"),
                     share(epoch.evaluation_accuracy), number(epoch.images_per_s, "{:.1f}"));
}

}  // namespace lockstep::results
