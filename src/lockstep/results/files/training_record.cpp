#include "lockstep/results/files/training_record.h"

#include "lockstep/base/json_codec.h"

namespace lockstep::results {
namespace {

/// Raised when a key changes its meaning; new keys do not need it.
constexpr int kTrainingSchemaVersion = 1;

}  // namespace

std::string to_json(const TrainingRecord& record) {
  Json json{{"schema", "lockstep training"}, {"schema_version", kTrainingSchemaVersion}};
  json.update(encode(record));
  return json_text(json);
}

}  // namespace lockstep::results
