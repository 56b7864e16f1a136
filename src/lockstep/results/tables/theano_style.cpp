#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "lockstep/results/record/baseline.h"
#include "lockstep/results/tables/render.h"
#include "lockstep/results/tables/row_tables.h"

namespace lockstep::results {
namespace {

/// Theano-MPI reports times per 5120 images, whatever the batch.
constexpr double kImages = 5120;

/// Seconds per 5120 images; the parts are empty where the record has no phases of the row.
struct Parts {
  double all_s = 0;
  std::optional<double> train_s, communication_s, synchronisation_s;
};

Parts parts_of(const Run& run) {
  Parts parts;
  if (!(run.images_per_s > 0)) return parts;
  parts.all_s = kImages / run.images_per_s;
  double transfer = 0;
  double waiting = 0;
  if (run.breakdown && run.breakdown->mean.step_s > 0) {
    transfer = run.breakdown->mean.transfer_s / run.breakdown->mean.step_s;
    waiting = run.breakdown->mean.waiting_s / run.breakdown->mean.step_s;
  } else if (communicates(run)) {
    // Without phases the shares of communication and waiting are unknown; only a lone rank has none.
    return parts;
  }
  parts.communication_s = transfer * parts.all_s;
  parts.synchronisation_s = waiting * parts.all_s;
  parts.train_s = parts.all_s - *parts.communication_s - *parts.synchronisation_s;
  return parts;
}

/// Speed-up as Theano-MPI computes it: synchronisation is left out on both sides.
std::optional<double> own_speedup(const RunRecord& record, const Run& run) {
  const Parts parts = parts_of(run);
  const Run* baseline = baseline_of(record, run);
  if (baseline == nullptr || !parts.train_s) return std::nullopt;
  const Parts one = parts_of(*baseline);
  if (!one.train_s) return std::nullopt;
  return (*one.train_s + *one.communication_s) / (*parts.train_s + *parts.communication_s);
}

Table theano_table(const RunRecord& record, const std::vector<const Run*>& rows, int64_t epoch_size) {
  const auto part = [](std::optional<double> Parts::*seconds) {
    return [=](const Run& run) { return fixed_text(parts_of(run).*seconds, 2); };
  };
  return run_table(
      rows,
      {{"train", part(&Parts::train_s)},
       {"communication", part(&Parts::communication_s)},
       {"synchronisation", part(&Parts::synchronisation_s)},
       {"all", [](const Run& run) { return fixed_text(parts_of(run).all_s, 2); }},
       {"h/epoch",
        [=](const Run& run) {
          const auto images = static_cast<double>(epoch_size);
          return fixed_text(run.images_per_s > 0 ? images / run.images_per_s / 3600 : 0, 2);
        }},
       {"speed-up", [](const Run& run) { return fixed_text(run.speedup, 2); }},
       {"Theano-MPI's", [&record](const Run& run) { return fixed_text(own_speedup(record, run), 2); }}});
}

}  // namespace

Document theano_style(const RunRecord& record, const RenderOptions& options) {
  Document document = grouped_tables(
      record, [](const Run&) { return true; },
      [](const RowTable& rows) { return fmt::format("{}: seconds per {:.0f} images", rows.title, kImages); },
      [&](const std::vector<const Run*>& rows) { return theano_table(record, rows, options.epoch_size); },
      {{"",
        fmt::format("communication: exposed transfer; synchronisation: waiting for other ranks; train: the "
                    "rest of the step. h/epoch: hours per {} images.",
                    options.epoch_size),
        true},
       {"",
        "speed-up is of the whole job's images per second. Theano-MPI's own is t1 / (train + communication): "
        "it leaves synchronisation out, and so stragglers."}});
  if (std::ranges::any_of(record.runs, [](const Run& run) { return !parts_of(run).train_s; }))
    document.add(Remark{"-: ", kPhasesAdvice});
  return document;
}

}  // namespace lockstep::results
