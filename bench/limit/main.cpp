// The limit of this processor: what one training step takes if every primitive of oneDNN takes its best time.

#include <algorithm>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <ATen/Parallel.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/launch/binding.h"
#include "lockstep/replica/precision.h"
#include "lockstep/results/tables/document.h"

#include "limit.h"

namespace {

using namespace lockstep;
using limit::Direction;
using limit::LayerLimit;
using limit::Limit;
using limit::PartLimit;
using limit::Work;
using nlohmann::json;
using results::Table;

constexpr const char* kExamples = R"(Examples:
  limit --model resnet50 --batch 16 --threads 2
      what a step takes at least, and what of it goes where
  limit --model resnet50 --batch 16 --precision bf16 --layers
      every layer and direction, worst GFLOP/s first, with the layout and implementation that won
  limit --model googlenet --image-size 96 --json limit.json
      the same for a program to read
)";

struct Options {
  std::string model = "resnet50";
  int64_t batch = 0;
  int64_t image_size = 0;
  std::string precision = "fp32";
  int threads = 0;
  int runs = 10;
  bool layers = false;
  std::string json_path;
};

void add_flags(CLI::App& app, Options& options) {
  app.footer(kExamples);
  app.add_option("--model", options.model, "network; 'lockstep info models' lists them")
      ->capture_default_str();
  app.add_option("--batch", options.batch, "images per step [the network's default]");
  app.add_option("--image-size", options.image_size, "height and width of an image [the network's own]");
  app.add_option("--precision", options.precision, "fp32 or bf16")->capture_default_str();
  app.add_option("--threads", options.threads, "threads, one core each [all cores]");
  app.add_option("--runs", options.runs, "timed runs of every primitive, of which the shortest counts")
      ->capture_default_str();
  app.add_flag("--layers", options.layers, "print every layer and direction");
  app.add_option("--json", options.json_path, "write all of it to a file");
}

struct Total {
  const char* name;
  std::vector<std::pair<Work, std::vector<Direction>>> of;
};

double total_s(const Limit& limit, const Total& total) {
  double sum_s = 0;
  for (const auto& [work, directions] : total.of) {
    for (const Direction direction : directions) sum_s += limit.total_s(work, direction);
  }
  return sum_s;
}

const std::vector<Total>& totals() {
  const std::vector<Direction> all{Direction::kForward, Direction::kBackward, Direction::kBackwardData,
                                   Direction::kBackwardWeights};
  static const std::vector<Total> kAll{
      {"forward", {{Work::kConvolution, {Direction::kForward}}}},
      {"backward_data", {{Work::kConvolution, {Direction::kBackwardData}}}},
      {"backward_weights", {{Work::kConvolution, {Direction::kBackwardWeights}}}},
      {"norm", {{Work::kNorm, all}}},
      {"relu", {{Work::kRelu, all}}},
      {"pool", {{Work::kPool, all}}},
      {"response_norm", {{Work::kResponseNorm, all}}},
      {"linear", {{Work::kLinear, all}}}};
  return kAll;
}

std::string totals_text(const Limit& limit) {
  Table table;
  table.add_column({"", results::kText});
  table.add_column("ms");
  table.add_column("share");
  for (const Total& total : totals()) {
    const double sum_s = total_s(limit, total);
    if (sum_s == 0) continue;
    std::string name = total.name;
    std::ranges::replace(name, '_', ' ');
    table.add_row(
        {name, fmt::format("{:.2f}", 1e3 * sum_s), fmt::format("{:.1f} %", 100 * sum_s / limit.step_s())});
  }
  table.add_row({"step", fmt::format("{:.2f}", 1e3 * limit.step_s()), "100.0 %"});
  return results::to_text(table) + fmt::format("{:.2f} images/s\n", limit.images_per_s());
}

struct Line {
  const LayerLimit* layer;
  const PartLimit* part;
};

/// Worst first: by GFLOP/s what multiplies, then by GB/s the rest.
std::vector<Line> worst_first(const Limit& limit) {
  std::vector<Line> lines;
  for (const LayerLimit& layer : limit.layers) {
    for (const PartLimit& part : layer.parts) lines.push_back({&layer, &part});
  }
  std::ranges::stable_sort(lines, [](const Line& a, const Line& b) {
    const bool a_multiplies = a.part->multiply_adds > 0;
    const bool b_multiplies = b.part->multiply_adds > 0;
    if (a_multiplies != b_multiplies) return a_multiplies;
    if (a_multiplies) return a.part->gflop_per_s() < b.part->gflop_per_s();
    return a.part->gb_per_s() < b.part->gb_per_s();
  });
  return lines;
}

std::string layers_text(const Limit& limit) {
  Table table;
  for (const char* head : {"first of them", "layer", "part"}) table.add_column({head, results::kText});
  for (const char* head : {"count", "ms", "GFLOP/s", "GB/s"}) table.add_column(head);
  for (const char* head : {"layout", "implementation"}) table.add_column({head, results::kText});
  for (const auto& [layer, part] : worst_first(limit)) {
    table.add_row({layer->names.front(), layer->layer.text(),
                   fmt::format("{} {}", to_string(part->work), to_string(part->direction)),
                   fmt::format("{}", layer->count()), fmt::format("{:.3f}", 1e3 * part->time_s),
                   part->multiply_adds > 0 ? fmt::format("{:.1f}", part->gflop_per_s()) : "-",
                   fmt::format("{:.1f}", part->gb_per_s()), part->layout, part->implementation});
  }
  return results::to_text(table);
}

std::string to_json(const Limit& limit, const Options& options) {
  json layers = json::array();
  for (const LayerLimit& layer : limit.layers) {
    json parts = json::array();
    for (const PartLimit& part : layer.parts) {
      parts.push_back({{"work", to_string(part.work)},
                       {"direction", to_string(part.direction)},
                       {"time_s", part.time_s},
                       {"multiply_adds", part.multiply_adds},
                       {"bytes", part.bytes},
                       {"gflop_per_s", part.gflop_per_s()},
                       {"gb_per_s", part.gb_per_s()},
                       {"layout", part.layout},
                       {"implementation", part.implementation}});
    }
    layers.push_back({{"names", layer.names}, {"layer", layer.layer.text()}, {"parts", std::move(parts)}});
  }
  json sums;
  for (const Total& total : totals()) sums[std::string(total.name) + "_s"] = total_s(limit, total);
  return json{{"model", options.model},           {"batch", limit.batch},
              {"image_size", options.image_size}, {"precision", options.precision},
              {"threads", limit.threads},         {"images_per_s", limit.images_per_s()},
              {"step_s", limit.step_s()},         {"totals", std::move(sums)},
              {"layers", std::move(layers)}}
             .dump(2) +
         "\n";
}

void run(Options options) {
  limit::require_limit();
  const models::ModelInfo& info = models::registry().get(options.model);
  if (options.batch == 0) options.batch = info.default_batch;
  if (options.image_size == 0) options.image_size = info.image_size;
  models::check_image_size(options.model, info, options.image_size);
  if (options.batch < 1 || options.runs < 1) throw ConfigError("--batch and --runs are 1 or more");
  const bool bf16 = replica::parse_precision(options.precision) == replica::Precision::kBf16;

  const launch::BindingPlan binding =
      launch::plan_binding(launch::usable_cores(), 1, options.threads, launch::Binding::kCore);
  launch::bind_this_thread(binding.cpus.front());
  at::set_num_threads(binding.threads_per_rank);

  const std::vector<limit::Layer> layers = limit::list_layers(info, options.image_size, options.batch);
  const bool has_terminal = ::isatty(STDERR_FILENO) == 1;
  const auto progress = [&](size_t done, size_t all) {
    if (has_terminal) fmt::print(stderr, "\r{} of {} kinds of layers", done, all);
  };
  const Limit limit =
      limit::measure_limit(layers, {.bf16 = bf16, .runs = options.runs, .progress = progress});
  if (has_terminal) fmt::print(stderr, "\r{:40}\r", "");

  fmt::print("The limit of {} with batch {} of {}x{} in {} on {} {}\n\n", options.model, options.batch,
             options.image_size, options.image_size, options.precision, limit.threads,
             limit.threads == 1 ? "thread" : "threads");
  if (options.layers) fmt::print("{}\n", layers_text(limit));
  fmt::print("{}", totals_text(limit));
  if (!options.json_path.empty()) write_file_atomically(options.json_path, to_json(limit, options));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("The limit of this processor: every primitive of a training step at its best time, in all.",
               "limit");
  Options options;
  add_flags(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitDone : kExitUsage;
  }
  try {
    run(options);
    return kExitDone;
  } catch (const Error& error) {
    fmt::print(stderr, "limit: {}\n{}\n", error.what(), error.advice());
    if (dynamic_cast<const BackendMissing*>(&error) != nullptr) return kExitBackendMissing;
    return dynamic_cast<const ConfigError*>(&error) != nullptr ? kExitUsage : kExitFailed;
  }
}
