#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "lockstep/results/record/baseline.h"
#include "lockstep/results/tables/tables.h"

namespace lockstep::results {
namespace {

/// Advice for a table that needs phases which the record lacks.
constexpr const char* kPhasesAdvice =
    "Where the time of a step goes is not in this record; measure it with 'lockstep bench --breakdown'.";

Document lockstep_style(const RunRecord& record, const RenderOptions& options) {
  Document document;
  // On a screen the answer, in another file PyTorch's table first.
  for (const auto part :
       {options.form.screen ? scaling_tables : ddp_tables, options.form.screen ? ddp_tables : scaling_tables,
        phases_tables, timeline, factors_tables, buckets_tables, input_tables, measures_tables, memory_tables,
        gpu_tables, tuning_remarks, replica_checks_remark, recorded_remarks}) {
    document.append(part(record));
  }
  document.append(explanation({{{"", record}}, {}}));
  return document;
}

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
             {"overall", [=](const Run& run) { return images_per_s_text(run, digits); }},
             {"speed-up", speedup_text}});
}

/// As pytorch_throughput prints: forward, backward and overall images per second, speed-up. Forward is over
/// the forward phase of the breakdown; backward, as there, over all from the loss to the end of the update.
Document throughput_style(const RunRecord& record, const RenderOptions&) {
  Document document = grouped_tables(
      record, [](const Run&) { return true; }, "Throughput: {0}, {2}s per second of the whole job",
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

/// Theano-MPI reports times per 5120 images, whatever the batch.
constexpr double kImages = 5120;

/// Seconds per 5120 images; empty without a rate, the parts also where the record has no phases of the row.
struct Parts {
  std::optional<double> all_s, train_s, communication_s, synchronisation_s;
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
  parts.communication_s = transfer * *parts.all_s;
  parts.synchronisation_s = waiting * *parts.all_s;
  parts.train_s = *parts.all_s - *parts.communication_s - *parts.synchronisation_s;
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
  return run_table(rows, {{"train", part(&Parts::train_s)},
                          {"communication", part(&Parts::communication_s)},
                          {"synchronisation", part(&Parts::synchronisation_s)},
                          {"all", part(&Parts::all_s)},
                          {"h/epoch",
                           [=](const Run& run) {
                             if (!(run.images_per_s > 0)) return std::string(kNoValue);
                             return fixed_text(static_cast<double>(epoch_size) / run.images_per_s / 3600, 2);
                           }},
                          {"speed-up", speedup_text},
                          {"Theano-MPI's", [&record](const Run& run) {
                             return marked(run, fixed_text(own_speedup(record, run), 2));
                           }}});
}

/// As Theano-MPI prints: seconds per 5120 images in training, communication and synchronisation, and hours
/// per epoch; both speed-ups, the honest one and Theano-MPI's own, which leaves synchronisation out. The
/// shares are those of the breakdown, applied to the mean step of the throughput run.
Document theano_style(const RunRecord& record, const RenderOptions& options) {
  Document document = grouped_tables(
      record, [](const Run&) { return true; }, fmt::format("{{0}}: seconds per {:.0f} {{2}}s", kImages),
      [&](const std::vector<const Run*>& rows) { return theano_table(record, rows, options.epoch_size); },
      {{"",
        fmt::format("communication: exposed transfer; synchronisation: waiting for other ranks; train: the "
                    "rest of the step. h/epoch: hours per {} {}s.",
                    options.epoch_size, record.runs.front().unit),
        true},
       {"",
        "speed-up is of the whole job's rate. Theano-MPI's own is t1 / (train + communication): "
        "it leaves synchronisation out, and so stragglers."}});
  if (std::ranges::any_of(record.runs, [](const Run& run) { return !parts_of(run).train_s; }))
    document.add(Remark{"-: ", kPhasesAdvice});
  return document;
}

/// Ordered from the nearest to the device to the farthest, as tensorpack's GPU/CPU/Python.
constexpr std::array<std::string_view, 5> kInputs{"device", "host", "queue", "dataset", "zmq"};

/// Texts of the rows, each once, in their order.
template <typename Text>
std::vector<std::string> occurring(const std::vector<const Run*>& rows, Text text) {
  std::vector<std::string> found;
  for (const Run* run : rows) {
    if (std::ranges::find(found, text(*run)) == found.end()) found.push_back(text(*run));
  }
  return found;
}

std::vector<std::string> inputs_of(const std::vector<const Run*>& rows) {
  std::vector<std::string> inputs = occurring(rows, [](const Run& run) { return run.input; });
  std::ranges::stable_sort(inputs, {}, [](const std::string& input) {
    return std::ranges::find(kInputs, input) - kInputs.begin();
  });
  return inputs;
}

/// Rates by input, "228/228/219"; "-" where all of them are missing.
std::string rates_text(const RowTable& table, int ranks, const std::string& strategy,
                       const std::vector<std::string>& inputs, int digits) {
  std::vector<std::string> rates;
  bool any = false;
  for (const std::string& input : inputs) {
    const auto run = std::ranges::find_if(table.rows, [&](const Run* row) {
      return row->ranks == ranks && strategy_text(*row) == strategy && row->input == input;
    });
    const bool known = run != table.rows.end();
    any = any || known;
    rates.push_back(known ? images_per_s_text(**run, digits) : kNoValue);
  }
  return any ? fmt::format("{}", fmt::join(rates, "/")) : kNoValue;
}

/// As tensorpack's benchmarks print: a row per number of ranks, a column per strategy, and the inputs of a
/// sweep in one field, from the nearest to the device to the farthest.
Document tensorpack_style(const RunRecord& record, const RenderOptions&) {
  Document document;
  for (const RowTable& rows : row_tables(record, "input")) {
    const int digits = rate_digits(rows.rows);
    const std::vector<std::string> inputs = inputs_of(rows.rows);
    const std::vector<std::string> strategies = occurring(rows.rows, strategy_text);
    std::set<int> all_ranks;
    for (const Run* run : rows.rows) all_ranks.insert(run->ranks);
    Table table;
    table.add_column(rows.rows.front()->device == "cpu" ? "ranks" : "#GPU");
    for (const std::string& strategy : strategies) table.add_column(strategy);
    for (const int ranks : all_ranks) {
      std::vector<Cell> cells{fmt::format("{}", ranks)};
      for (const std::string& strategy : strategies)
        cells.push_back(rates_text(rows, ranks, strategy, inputs, digits));
      table.add_row(std::move(cells));
    }
    document.add(Heading{fmt::format("{}: {} of the whole job (input {})", rows.title,
                                     rows.rows.front()->rate_unit(), fmt::join(inputs, "/"))});
    document.add(std::move(table));
  }
  return document;
}

}  // namespace

const Registry<Style>& styles() {
  static const Registry<Style> kAll(
      "style", "lockstep show --help",
      {{"lockstep", {"step times, scaling, phases and what efficiency is made of", lockstep_style}},
       {"ddp",
        {"step times, as PyTorch's DDP benchmark",
         [](const RunRecord& record, const RenderOptions&) { return ddp_tables(record); }}},
       {"throughput",
        {"forward, backward and overall images/s, as pytorch_throughput", throughput_style, true}},
       {"theano", {"seconds per 5120 images, and hours per epoch, as Theano-MPI", theano_style, true}},
       {"tensorpack", {"ranks by strategies, inputs in one field, as tensorpack", tensorpack_style}}});
  return kAll;
}

std::string render(const RunRecord& record, const RenderOptions& options) {
  const Style& style = styles().get(options.style);
  if (record.training) return to_text(epochs_table(*record.training), options.form);
  return record.runs.empty() ? "Nothing was measured.\n"
                             : to_text(style.tables(record, options), options.form);
}

}  // namespace lockstep::results
