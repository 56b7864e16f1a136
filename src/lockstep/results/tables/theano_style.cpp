#include <optional>

#include <fmt/format.h>

#include "lockstep/results/record/baseline.h"
#include "lockstep/results/tables/row_tables.h"
#include "lockstep/results/tables/styles.h"

namespace lockstep::results {
namespace {

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
    return parts;
  }
  parts.communication_s = transfer * parts.all_s;
  parts.synchronisation_s = waiting * parts.all_s;
  parts.train_s = parts.all_s - *parts.communication_s - *parts.synchronisation_s;
  return parts;
}

/// As the tool has it: synchronisation left out on both sides.
std::optional<double> own_speedup(const RunRecord& record, const Run& run, const Parts& parts) {
  const Run* baseline = baseline_of(record, run);
  if (baseline == nullptr || !parts.train_s) return std::nullopt;
  const Parts one = parts_of(*baseline);
  if (!one.train_s) return std::nullopt;
  return (*one.train_s + *one.communication_s) / (*parts.train_s + *parts.communication_s);
}

std::string seconds(const std::optional<double>& value) {
  return value ? fmt::format("{:.2f}", *value) : "-";
}

}  // namespace

std::string theano_style(const RunRecord& record, const RenderOptions& options) {
  std::string text;
  bool lacking = false;
  for (const RowTable& rows : row_tables(record)) {
    TextTable table;
    table.add_column("ranks");
    table.add_column("strategy", TextTable::Align::kLeft);
    for (const char* head :
         {"train", "communication", "synchronisation", "all", "h/epoch", "speed-up", "Theano-MPI's"}) {
      table.add_column(head);
    }
    for (const Run* run : rows.rows) {
      const Parts parts = parts_of(*run);
      lacking = lacking || !parts.train_s;
      const double epoch_h =
          run->images_per_s > 0 ? static_cast<double>(options.epoch_size) / run->images_per_s / 3600 : 0;
      table.add_row({fmt::format("{}", run->ranks), strategy_text(*run), seconds(parts.train_s),
                     seconds(parts.communication_s), seconds(parts.synchronisation_s), seconds(parts.all_s),
                     fmt::format("{:.2f}", epoch_h), seconds(run->speedup),
                     seconds(own_speedup(record, *run, parts))});
    }
    if (!text.empty()) text += '\n';
    text += heading(fmt::format("{}: seconds per {:.0f} images", rows.title, kImages), options.form()) +
            (options.markdown ? "" : "\n") + table.text(options.form());
  }
  text +=
      '\n' + remark("",
                    fmt::format("communication: exposed transfer; synchronisation: waiting for other ranks; "
                                "train: the rest of the step. h/epoch: hours per {} images.",
                                options.epoch_size),
                    options.form());
  text += remark("",
                 "speed-up is of the whole job's images per second. Theano-MPI's own is t1 / (train + "
                 "communication): it leaves synchronisation out, and so stragglers.",
                 options.form());
  if (lacking) text += remark("-: ", kPhasesAdvice, options.form());
  return text;
}

}  // namespace lockstep::results
