#include "lockstep/results/files/training_record.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/units.h"
#include "lockstep/base/json_text.h"

namespace lockstep::results {
namespace {

/// Raised when a key changes its meaning; new keys do not need it.
constexpr int kTrainingSchemaVersion = 1;

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json json_of(const EpochRecord& epoch) {
  return {{"epoch", epoch.epoch},
          {"steps", epoch.steps},
          {"learning_rate", epoch.learning_rate},
          {"loss", epoch.loss},
          {"training_accuracy", or_null(epoch.training_accuracy)},
          {"evaluation_loss", or_null(epoch.evaluation_loss)},
          {"evaluation_accuracy", or_null(epoch.evaluation_accuracy)},
          {"images_per_s", or_null(epoch.images_per_s)}};
}

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
  Json settings = Json::object();
  for (const auto& [name, value] : record.settings) settings[name] = value;
  Json epochs = Json::array();
  for (const EpochRecord& epoch : record.epochs) epochs.push_back(json_of(epoch));
  return json_text({{"schema", "lockstep training"},
                  {"schema_version", kTrainingSchemaVersion},
                  {"lockstep", record.lockstep_version},
                  {"torch", record.torch_version},
                  {"host", record.host},
                  {"command", record.command},
                  {"backend", record.backend},
                  {"launch", record.launch},
                  {"threads_per_rank", record.threads_per_rank},
                  {"kernel_detail", record.kernel_detail},
                  {"settings", settings},
                  {"resumed_at_step", or_null(record.resumed_at_step)},
                  {"epochs", epochs},
                  {"parameters_hash", record.parameters_hash},
                  {"incomplete", record.incomplete}});
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
