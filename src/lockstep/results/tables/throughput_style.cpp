#include <algorithm>

#include <fmt/format.h>

#include "lockstep/results/tables/render.h"
#include "lockstep/results/tables/row_tables.h"

namespace lockstep::results {
namespace {

/// Images per second of a part of the step that takes `part_s`.
std::string rate_text(const Run& run, double part_s, int digits) {
  if (!(part_s > 0)) return kNoValue;
  return fmt::format("{:.{}f}", run.ranks * run.images_per_rank_step() / part_s, digits);
}

Table throughput_table(const std::vector<const Run*>& rows) {
  const int digits = rate_digits(rows);
  return run_table(
      rows, {{"forward",
              [=](const Run& run) {
                return run.breakdown ? rate_text(run, run.breakdown->mean.forward_s, digits) : kNoValue;
              }},
             {"backward",
              [=](const Run& run) -> std::string {
                if (!run.breakdown) return kNoValue;
                const PhaseTimes& mean = run.breakdown->mean;
                return rate_text(run, mean.backward_s + mean.exposed_s() + mean.optimizer_s, digits);
              }},
             {"overall", [=](const Run& run) { return fmt::format("{:.{}f}", run.images_per_s, digits); }},
             {"speed-up", [](const Run& run) { return fixed_text(run.speedup, 2); }}});
}

}  // namespace

Document throughput_style(const RunRecord& record, const RenderOptions&) {
  Document document = grouped_tables(
      record, [](const Run&) { return true; },
      [](const RowTable& rows) {
        return "Throughput: " + rows.title + ", images per second of the whole job";
      },
      throughput_table);
  const auto has_breakdown = [](const Run& run) { return run.breakdown.has_value(); };
  const bool any = std::ranges::any_of(record.runs, has_breakdown);
  if (any) {
    document.add(Remark{"",
                        "forward and backward are from the breakdown, a run of its own with real "
                        "synchronisation; backward is from the loss to the end of the update, communication "
                        "and optimizer included. overall is the throughput run, and the speed-up is its.",
                        true});
  }
  if (!std::ranges::all_of(record.runs, has_breakdown)) document.add(Remark{"-: ", kPhasesAdvice, !any});
  return document;
}

}  // namespace lockstep::results
