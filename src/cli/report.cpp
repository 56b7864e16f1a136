#include "lockstep/links/report.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/launch/child_process.h"
#include "lockstep/launch/guarded_folder.h"
#include "lockstep/plots/frame.h"
#include "lockstep/plots/page.h"
#include "lockstep/results/files/record_json.h"

#include "collectives_plan.h"
#include "commands.h"
#include "console.h"
#include "output_files.h"
#include "predict_job.h"
#include "result_keeper.h"
#include "shared_flags.h"

// The commands that show results: `report` on a page of all charts and tables, `plot` as a single chart,
// `show` as tables.

namespace lockstep::cli {
namespace {

constexpr const char* kReportExamples = R"(Examples:
  lockstep report run.json -o report.html
  lockstep report before.json after.json -o report.html
  lockstep report run.json --published data/published/pytorch_throughput.json -o report.html
The page contains everything that it shows, without scripts; nothing is fetched.
docs/reading-the-report.md explains it.
)";

constexpr const char* kPlotExamples = R"(Examples:
  lockstep plot run.json --chart speedup -o speedup.svg
  lockstep plot before.json after.json --chart throughput -o throughput.pdf
  lockstep plot --published data/published/theano_mpi.json --chart speedup -o theano.svg
)";

struct DrawingOptions {
  std::vector<std::string> runs;
  std::vector<std::string> published;
  std::string output;
  bool force = false;
  /// A name of plots::charts(), for `plot` alone.
  std::string chart;
  double width = 640;
  /// Replaces the chart's own title; empty: it stays.
  std::string title;
};

void add_source_flags(Flags& flags, DrawingOptions& options) {
  flags.add("runs", options.runs,
            "files of 'lockstep bench --json FILE' or 'lockstep train --json FILE', or of PyTorch's DDP "
            "benchmark; or "
            "of 'lockstep collectives --json FILE'");
  flags.add("--published", options.published, "published results to draw beside them; may be given again",
            {.value = "FILE", .repeated = true});
}

/// Each file once: standard input and pipes cannot be read again.
std::vector<NamedText> read_all(const std::vector<std::string>& paths) {
  std::vector<NamedText> files;
  std::ranges::transform(paths, std::back_inserter(files), read_given);
  return files;
}

std::vector<results::NamedRecord> read_records(const std::vector<std::string>& paths,
                                               const std::vector<NamedText>& files) {
  const std::vector<std::string> names = results::display_names(paths);
  std::vector<results::NamedRecord> records;
  for (size_t i = 0; i < files.size(); ++i)
    records.push_back({names[i], results::from_json(files[i].text, files[i].name)});
  return records;
}

/// `runs`: the files of options.runs. Returns all files, and what would help the first that says it.
std::pair<results::Sources, results::Document> read_sources(const DrawingOptions& options,
                                                            const std::vector<NamedText>& runs) {
  if (options.runs.empty() && options.published.empty()) {
    throw ConfigError("no file to draw",
                      "Name one or more files of `lockstep bench --json FILE`, or --published FILE.");
  }
  for (const std::string& path : options.published) {
    if (!path.ends_with(".csv")) continue;
    throw Error(fmt::format("'{}' is a table in the format of older versions; published results are result "
                            "files now",
                            path),
                fmt::format("Make one of it with `python3 data/published/to_json.py -o . {}`.", path));
  }
  results::Sources sources{read_records(options.runs, runs),
                           read_records(options.published, read_all(options.published))};
  results::complete(sources);
  results::Document help;
  for (size_t i = 0; i < options.runs.size(); ++i) {
    Outlook outlook = outlook_of(sources.records[i].record, options.runs[i]);
    std::ranges::move(outlook.forecasts, std::back_inserter(sources.forecasts));
    if (help.empty()) help = std::move(outlook.help);
  }
  return {std::move(sources), std::move(help)};
}

/// The drawing in another format, by librsvg's program. Text of a PDF stays text.
std::string converted(const std::string& svg, const std::string& format) {
  if (launch::find_program("rsvg-convert").empty()) {
    throw Error(fmt::format("rsvg-convert, which makes {} files of drawings, is not installed", format),
                "Install Debian's package librsvg2-bin (Fedora: librsvg2-tools), or write FILE.svg.");
  }
  const launch::GuardedFolder folder(make_private_folder("lockstep-plot"), std::chrono::milliseconds(0));
  const std::string from = folder.path() / "chart.svg", to = folder.path() / "chart";
  write_file_atomically(from, svg);
  // A pixel of the drawing is two of a PNG, for sharp text.
  const launch::ChildEnd end = launch::run_child(
      {"rsvg-convert", {"rsvg-convert", "-f", format, "-z", format == "png" ? "2" : "1", "-o", to, from}});
  const std::string drawing = end.exit_code == 0 ? read_file(to) : "";
  if (drawing.empty()) throw Error(fmt::format("rsvg-convert ended with code {}", end.exit_code));
  // Readers of both formats ignore what follows their end.
  return drawing + kDrawingMark;
}

/// The format that the ending of the output names; svg without one. Throws ConfigError for any other ending.
std::string format_of(const std::string& output) {
  const std::string ending = std::filesystem::path(output).extension();
  if (ending.empty()) return "svg";
  for (const char* format : {"svg", "pdf", "png"}) {
    if (ending.substr(1) == format) return format;
  }
  throw ConfigError(fmt::format("plot writes .svg, .pdf and .png files, not '{}'", output));
}

void check_output(const DrawingOptions& options) {
  std::vector<GivenFile> inputs;
  for (const std::string& path : options.runs) inputs.push_back({"a file to draw", path});
  for (const std::string& path : options.published) inputs.push_back({"--published", path});
  check_output_files({{"-o", options.output}}, inputs, options.force);
}

/// The tables of collectives among the files; empty: there is none. Throws ConfigError for a mixture.
std::vector<NamedCollectives> read_collectives(const DrawingOptions& options,
                                               const std::vector<NamedText>& runs) {
  std::vector<NamedCollectives> records;
  const std::vector<std::string> names = results::display_names(options.runs);
  for (size_t i = 0; i < runs.size(); ++i) {
    if (collectives::is_record(runs[i].text))
      records.push_back({names[i], collectives::from_json(runs[i].text, runs[i].name)});
  }
  if (!records.empty() && (records.size() < options.runs.size() || !options.published.empty())) {
    throw ConfigError(fmt::format("'{}' is a table of collectives, and another file is not", records[0].name),
                      "Draw tables of collectives by themselves.");
  }
  return records;
}

int run_report(const DrawingOptions& options) {
  check_output(options);
  const std::vector<NamedText> runs = read_all(options.runs);
  if (std::ranges::any_of(runs, links::is_record, &NamedText::text)) {
    if (options.runs.size() > 1 || !options.published.empty())
      throw ConfigError("a file of links is shown by itself", "Give one file of 'lockstep topo --measure'.");
    write_result(options.output, links::page(links::from_json(runs[0].text, runs[0].name)));
    return kExitDone;
  }
  if (const auto records = read_collectives(options, runs); !records.empty()) {
    write_result(options.output, collectives_page(records));
    return kExitDone;
  }
  const auto [sources, help] = read_sources(options, runs);
  write_result(options.output, plots::report_page(sources, help));
  return kExitDone;
}

int run_plot(const DrawingOptions& options) {
  check_output(options);
  const std::string format = format_of(options.output);
  const plots::ChartForm form{options.width, options.chart};
  const std::vector<NamedText> runs = read_all(options.runs);
  if (std::ranges::any_of(runs, links::is_record, &NamedText::text)) {
    throw ConfigError("plot draws no file of links",
                      "'lockstep report' makes a page of it, 'lockstep topo --from FILE --svg' its drawing.");
  }
  const std::vector<NamedCollectives> records = read_collectives(options, runs);
  const std::vector<std::string> of_collectives = collectives_charts();
  const bool wants_collectives = std::ranges::find(of_collectives, options.chart) != of_collectives.end();
  if (wants_collectives == records.empty()) {
    throw ConfigError(
        fmt::format("--chart {} is not one of {}", options.chart,
                    wants_collectives ? "a training's results" : "a table of collectives"),
        fmt::format("Those are {}.",
                    fmt::join(wants_collectives ? plots::charts().names() : of_collectives, ", ")));
  }
  plots::Chart chart = wants_collectives
                           ? collectives_chart(options.chart, records, form)
                           : plots::charts().get(options.chart)(read_sources(options, runs).first, form);
  if (!chart.drawn()) {
    throw Error(fmt::format("chart '{}' cannot be drawn: {}", options.chart, chart.missing), chart.advice);
  }
  if (!options.title.empty()) chart.title = options.title;
  const std::string svg = plots::standalone_svg(chart, form);
  write_result(options.output, format == "svg" ? svg : converted(svg, format));
  return kExitDone;
}

constexpr const char* kShowExamples = R"(Examples:
  lockstep show run.json
  lockstep show run.json --style throughput
  lockstep show run.json --markdown > run.md
  lockstep show run.json --csv - | column -s, -t
)";

struct ShowOptions {
  std::string file;
  results::RenderOptions how;
  /// File for the rows as CSV in place of tables; "-" for stdout, empty: tables.
  std::string csv;
  bool force = false;
};

int run_show(const ShowOptions& options, const Flags& flags) {
  // Checked before the file, which may be large, is read.
  check_style(options.how);
  check_output_files({{"--csv", options.csv}}, {{"the file to show", options.file}}, options.force);
  const NamedText file = read_given(options.file);
  const bool of_links = links::is_record(file.text);
  if (of_links || collectives::is_record(file.text)) {
    flags.refuse({"--csv", "--style", "--epoch-size"}, "on a file of collectives or links alone",
                 "Such files have tables of their own.");
    print_result(results::to_text(of_links ? links::tables(links::from_json(file.text, file.name))
                                           : collectives_tables(collectives::from_json(file.text, file.name)),
                                  stdout_form(options.how.form.markdown)));
    return kExitDone;
  }
  const results::RunRecord record = results::from_json(file.text, file.name);
  if (!options.csv.empty()) {
    write_result(options.csv, results::to_csv(record));
    return kExitDone;
  }
  results::Document more;
  // The other styles are those of other tools.
  if (options.how.style == results::RenderOptions().style) {
    results::Document help = outlook_of(record, options.file).help;
    if (!help.empty()) more.add(results::Heading{"What would help"});
    more.append(std::move(help));
  }
  print_record(record, options.how, /*with_header=*/true, more);
  return kExitDone;
}

}  // namespace

RunCommand add_report(Flags& flags) {
  const auto options = std::make_shared<DrawingOptions>();
  flags.set_examples(kReportExamples);
  add_source_flags(flags, *options);
  flags.add("-o,--output", options->output, "the page to write; - for stdout",
            {.value = "FILE.html", .required = true});
  add_force_flag(flags, options->force);
  return [options](const Arguments& /*arguments*/) { return run_report(*options); };
}

RunCommand add_plot(Flags& flags) {
  const auto options = std::make_shared<DrawingOptions>();
  flags.set_examples(kPlotExamples);
  add_source_flags(flags, *options);
  std::vector<std::string> charts = plots::charts().names();
  std::ranges::copy(collectives_charts(), std::back_inserter(charts));
  flags.add("--chart", options->chart,
            fmt::format("{}; the last two of 'lockstep collectives'", fmt::join(charts, ", ")),
            {.value = "NAME", .required = true, .one_of = charts});
  flags.add("--width", options->width,
            "width of the drawing in pixels, without its margins; its text is 13 pixels high",
            {.numbers = NumberRange{.least = plots::kNarrowestChart, .most = 2000}});
  flags.add("--title", options->title, "heading of the drawing [the chart's own]", {.value = "TEXT"});
  flags.add("-o,--output", options->output,
            "the drawing to write, as FILE.svg, .pdf or .png, which rsvg-convert makes; - for stdout (SVG)",
            {.value = "FILE", .required = true});
  add_force_flag(flags, options->force);
  return [options](const Arguments& /*arguments*/) { return run_plot(*options); };
}

RunCommand add_show(Flags& flags) {
  const auto options = std::make_shared<ShowOptions>();
  flags.set_examples(kShowExamples);
  flags.add("file", options->file,
            "a file of 'lockstep bench --json FILE', its FILE.partial, or of PyTorch's DDP benchmark",
            {.value = "FILE", .required = true});
  flags.begin_group("Options", {.never_beside = "--csv"});
  add_style_flags(flags, options->how);
  flags.begin_group("Options");
  flags.add("--csv", options->csv, "write a line per row to this file in place of tables; - for stdout",
            {.value = "FILE"});
  add_force_flag(flags, options->force);
  return [options, &flags](const Arguments& /*arguments*/) { return run_show(*options, flags); };
}

}  // namespace lockstep::cli
