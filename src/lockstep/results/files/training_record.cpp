#include "lockstep/results/files/training_record.h"

#include <nlohmann/json.hpp>

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

}  // namespace lockstep::results
