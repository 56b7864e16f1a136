#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/base/json_codec.h"
#include "lockstep/base/number_range.h"
#include "lockstep/base/units.h"
#include "lockstep/predict/curves/curve_model.h"
#include "lockstep/predict/jobs/collective_table.h"
#include "lockstep/predict/jobs/job_model.h"
#include "lockstep/results/tables/document.h"

#include "commands.h"
#include "console.h"
#include "output_files.h"
#include "predict_job.h"

namespace lockstep::cli {
namespace {

using predict::CurvePrediction;

constexpr const char* kPredictExamples = R"(Examples:
  lockstep predict --curves data/published/sources/curves.csv
  lockstep predict --curves data/published/sources/pytorch_throughput.csv --known-up-to 8
  lockstep predict --curves mine.csv --known-up-to 1 --json predictions.json
  lockstep predict --curves mine.csv --known-up-to 1 --collectives all_reduce_perf.txt
      from one GPU and what nccl-tests printed on the same cluster
  lockstep predict run.json --ranks 2,8,64,1024 --per-host 8 --network 25gbit,20us
  lockstep predict run.json --ranks 64 --what-if
  lockstep predict run.json --ranks 128 --what-if bandwidth=2x,wire=bf16,strategy=sharded
  lockstep predict run.json --what-if bucket=10,batch=2x,wire=bf16 --verify
      those changes measured here too, in three launches each
  lockstep predict run.json --ranks 128 --simulate 128 --slow-rank 1.3x
A run with a breakdown (bench --breakdown, record, import) is carried to other numbers of ranks. A table of published
curves is a check of the method on what others measured: each curve's larger counts are predicted from its
smaller ones and compared with what was published. docs/predicting.md has the formulas, the errors found, and when not
to trust them.
)";

struct PredictOptions {
  std::string curves;
  std::string known_up_to = "half";
  std::string json;
  bool force = false;
  bool markdown = false;
  bool quiet = false;
  PredictJobOptions job;
};

double error_of(double predicted, const CurvePrediction& row) {
  return predicted / row.measured - 1;
}

results::Table predictions_table(const std::vector<CurvePrediction>& predictions) {
  results::Table table{.columns = {{"curve", results::kText},
                                   "known",
                                   "GPUs",
                                   "measured",
                                   "predicted",
                                   "low",
                                   "high",
                                   "error",
                                   "log2 N"}};
  for (const CurvePrediction& row : predictions) {
    table.add_row({row.curve, count_text(row.known_gpus), count_text(row.gpus),
                   results::number_text(row.measured), results::number_text(row.forecast.images_per_s),
                   results::number_text(row.forecast.low), results::number_text(row.forecast.high),
                   results::signed_percent_text(error_of(row.forecast.images_per_s, row)),
                   results::signed_percent_text(error_of(row.log2, row))});
  }
  return table;
}

/// Errors of the predictions that `belongs` accepts, beside those of the simple predictors; empty for none.
results::Document errors_of(const std::string& title, const std::vector<CurvePrediction>& predictions,
                            const std::function<bool(const CurvePrediction&)>& belongs) {
  std::vector<CurvePrediction> rows;
  std::ranges::copy_if(predictions, std::back_inserter(rows), belongs);
  if (rows.empty()) return {};
  results::Document document;
  const auto covered = std::ranges::count_if(rows, &CurvePrediction::is_covered);
  document.add(
      results::Heading{fmt::format("{}: {}, {} of them ({:.0f} %) within their 90 % intervals", title,
                                   counted(std::ssize(rows), "prediction"), covered,
                                   100.0 * static_cast<double>(covered) / static_cast<double>(rows.size()))});
  results::Table table{.columns = {{"predictor", results::kText}, "mean", "median", "p90"}};
  const auto add = [&](const char* name, const auto& predicted) {
    std::vector<double> errors;
    for (const CurvePrediction& row : rows) errors.push_back(std::abs(error_of(predicted(row), row)));
    const predict::ErrorSummary summary = predict::summarize_errors(errors);
    table.add_row({name, fmt::format("{:.1f} %", 100 * summary.mean),
                   fmt::format("{:.1f} %", 100 * summary.median),
                   fmt::format("{:.1f} %", 100 * summary.p90)});
  };
  add("lockstep", [](const CurvePrediction& row) { return row.forecast.images_per_s; });
  add("last efficiency", [](const CurvePrediction& row) { return row.last_efficiency; });
  add("log2 N", [](const CurvePrediction& row) { return row.log2; });
  document.add(std::move(table));
  return document;
}

results::Document tables_of(const std::vector<CurvePrediction>& predictions) {
  results::Document document;
  document.add(results::Heading{"Predictions from smaller counts, images per second of the whole job"});
  document.add(predictions_table(predictions));
  document.add(
      results::Remark{"",
                      "low, high: interval that holds 90 % of measurements. error: predicted against "
                      "measured; log2 N: that of an overhead that grows with log2 N."});
  const auto blind = std::ranges::count_if(predictions, [](const CurvePrediction& row) {
    return row.known == predict::KnownCounts::kOneNodeForSeveral;
  });
  if (blind > 0)
    document.add(results::Remark{
        "",
        fmt::format("{} of several nodes {} from counts of one node, which say nothing of the links between "
                    "nodes: their intervals are wide. Measure two nodes to know more.",
                    counted(blind, "prediction"), blind == 1 ? "is" : "are")});
  document.append(errors_of("One node", predictions,
                            [](const CurvePrediction& row) { return !row.strong && !row.several_nodes; }));
  document.append(errors_of("Several nodes", predictions,
                            [](const CurvePrediction& row) { return !row.strong && row.several_nodes; }));
  document.append(errors_of("Efficiency below 0.7", predictions,
                            [](const CurvePrediction& row) { return !row.strong && row.efficiency < 0.7; }));
  document.append(
      errors_of("Strong scaling", predictions, [](const CurvePrediction& row) { return row.strong; }));
  return document;
}

std::string json_of(const std::vector<CurvePrediction>& predictions) {
  Json list = Json::array();
  for (const CurvePrediction& row : predictions) {
    list.push_back({{"curve", row.curve},
                    {"gpus", row.gpus},
                    {"images_per_s", row.forecast.images_per_s},
                    {"low", row.forecast.low},
                    {"high", row.forecast.high},
                    {"measured", row.measured}});
  }
  return json_text({{"predictions", list}});
}

bool transfer_is_told(const PredictJobOptions& options) {
  return !options.collectives.empty() || !options.network.empty();
}

/// Curves whose communication the measured collectives or the network tell; the others are left out, with a
/// note.
std::vector<predict::Curve> with_transfer(std::vector<predict::Curve> curves, const PredictOptions& options) {
  predict::CollectiveTable table("nccl");
  if (!options.job.collectives.empty()) {
    for (const predict::CollectivePoint& point :
         predict::read_collectives(options.job.collectives, table.backend(), print_note))
      table.add(point);
  }
  if (!options.job.network.empty())
    table.set_network(predict::parse_network(options.job.network), /*measured_there=*/true);
  const size_t all = curves.size();
  std::erase_if(curves, [&](predict::Curve& curve) {
    if (curve.parameters == 0) curve.parameters = published_parameters(curve.model);
    return !predict::add_transfer(curve, table);
  });
  constexpr const char* kNeeds =
      "the communication of a curve needs batch_per_gpu, and a model that 'lockstep info models' lists or a "
      "column parameters";
  if (curves.empty())
    throw ConfigError(fmt::format("{}: {}", options.curves, kNeeds),
                      "Add these columns, or leave out --collectives and --network.");
  if (const size_t left_out = all - curves.size(); left_out > 0)
    print_note(
        fmt::format("{} of {} left out: {}", left_out, counted(static_cast<int64_t>(all), "curve"), kNeeds));
  return curves;
}

int run_predict_curves(const PredictOptions& options) {
  std::optional<int> known_up_to;
  if (options.known_up_to != "half") {
    const std::optional<int64_t> count = parse_whole(options.known_up_to, {.least = 1, .most = 1e7});
    if (!count)
      throw ConfigError(
          fmt::format("--known-up-to takes half or a number of GPUs, not '{}'", options.known_up_to));
    known_up_to = static_cast<int>(*count);
  }
  std::vector<predict::Curve> curves = predict::read_curves(options.curves);
  if (transfer_is_told(options.job)) curves = with_transfer(std::move(curves), options);
  const std::vector<CurvePrediction> predictions = predict::predict_curves(curves, known_up_to);
  if (predictions.empty())
    throw ConfigError(fmt::format("{} has no curve with counts on both sides of --known-up-to {}",
                                  options.curves, options.known_up_to),
                      "A prediction needs a smaller count to start from and a larger one to compare with.");
  if (!options.json.empty()) {
    write_result(options.json, json_of(predictions));
    return kExitDone;
  }
  results::Document document = tables_of(predictions);
  if (transfer_is_told(options.job)) {
    std::vector<std::string> costs{options.job.collectives, options.job.network};
    std::erase(costs, "");
    document.add(results::Remark{
        "", fmt::format("Communication of each count: by the costs of {}.", fmt::join(costs, " and "))});
  }
  print_result(results::to_text(document, stdout_form(options.markdown)));
  return kExitDone;
}

int run_predict(const PredictOptions& options) {
  if (options.curves.empty() == options.job.record.empty()) {
    throw ConfigError(options.curves.empty() ? "'lockstep predict' needs a result file or --curves"
                                             : "'lockstep predict' takes a result file or --curves, not both",
                      "lockstep predict run.json --ranks 128");
  }
  check_output_files({{"--json", options.json}},
                     {{"--curves", options.curves},
                      {"RUN.json", options.job.record},
                      {"--collectives", options.job.collectives}},
                     options.force);
  if (options.curves.empty()) return run_predict_job(options.job, options.json, options.markdown);
  return run_predict_curves(options);
}

}  // namespace

RunCommand add_predict(Flags& flags) {
  const auto options = std::make_shared<PredictOptions>();
  flags.set_examples(kPredictExamples);
  flags.set_modes({"--curves"});
  add_predict_job_flags(flags, options->job);
  flags.begin_group("Published curves");
  flags.add("--curves", options->curves,
            "a table of published scaling curves, in the columns of data/published/sources",
            {.value = "FILE.csv"});
  flags.add("--known-up-to", options->known_up_to,
            "counts to predict from: those up to half of a curve's largest one, or up to a number of GPUs",
            {.value = "N|half", .use = FlagUse{.needs = "--curves", .modes = {"--curves"}}});
  flags.begin_group("Output", {.modes = {"--curves"}});
  flags.add("--json", options->json, "write the predictions as JSON in place of tables, to a file or stdout",
            {.value = "FILE", .alone = "-"});
  add_force_flag(flags, options->force);
  flags.add_switch("--markdown", options->markdown, "write tables as GitHub's Markdown",
                   FlagUse{.never_beside = "--json", .modes = {"--curves"}});
  flags.add_switch("-q,--quiet", options->quiet, "print no progress and no notes");
  return [options](const Arguments& /*arguments*/) {
    if (options->quiet) set_quiet(true);
    return run_predict(*options);
  };
}

}  // namespace lockstep::cli
