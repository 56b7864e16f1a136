#include <cstdlib>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/plain_text.h"
#include "lockstep/base/units.h"
#include "lockstep/links/report.h"
#include "lockstep/results/files/system_json.h"
#include "lockstep/results/tables/tables.h"
#include "lockstep/topology/inspect.h"

#include "commands.h"
#include "console.h"
#include "kept_record.h"
#include "output_files.h"
#include "shared_flags.h"
#include "topo_plan.h"

namespace lockstep::cli {
namespace {

constexpr const char* kTopoExamples = R"(Examples:
  lockstep topo
  lockstep topo --json node7.json
  lockstep topo --from node7.json --svg node7.svg
  lstopo node7.xml                    on a machine without lockstep
  lockstep topo --from node7.xml      processors and the PCI bus; hwloc's file has no NVLinks
  lockstep topo --measure --ranks 4 --json links.json --svg links.svg
      latency and bandwidth between every two ranks, and what is wrong with the network
  srun -N 8 --ntasks-per-node 1 lockstep topo --measure --interface ib0
      a rank on each of eight hosts, over an interface of your choice
lockstep report, show and topo --from read the file of --measure --json. docs/topology.md explains it.
)";

/// Set by the parent: where rank 0 keeps what it has measured.
constexpr const char* kLinksVariable = "LOCKSTEP_LINKS";

struct TopoOptions {
  TopoOptions() {
    job.device = "cpu";
    job.backend = "gloo";
  }

  /// A recorded system or measured links; empty: this machine.
  std::string from;
  /// File for JSON in place of tables; "-" for stdout, empty: tables.
  std::string json;
  std::string svg;
  bool force = false;
  bool markdown = false;

  bool measure = false;
  /// 0: the launcher's ranks, or as many as this host has cores, two at least.
  int ranks = 0;
  links::Pacing pacing;
  train::JobOptions job;
  bool dry_run = false;
  bool quiet = false;
};

/// Draws a record of links, or a system.
template <typename Subject>
void draw(const TopoOptions& options, const Subject& subject) {
  if (options.svg.empty()) return;
  const plots::ChartForm form{.width = 720, .id = "topo"};
  write_result(options.svg, plots::standalone_svg(links::drawing(subject, form), form));
}

int show_links(const TopoOptions& options, const links::Record& record) {
  // Files first: the reader of what is printed may be gone.
  if (!options.json.empty()) write_result(options.json, links::to_json(record));
  draw(options, record);
  if (options.json != "-" && options.svg != "-")
    print_result(results::to_text(links::tables(record), stdout_form(options.markdown)));
  return kExitDone;
}

int show_system(const TopoOptions& options, const results::System& system) {
  if (!options.json.empty()) write_result(options.json, results::system_to_json(system));
  draw(options, system);
  if (options.json.empty() && options.svg.empty())
    print_result(results::to_text(results::system_tables(system), stdout_form(options.markdown)));
  return kExitDone;
}

TopoPlan plan_topo(const TopoOptions& options) {
  if (options.job.backend == train::kNccl) {
    throw ConfigError("topo --measure measures host memory, which --backend nccl does not carry",
                      "--backend gloo measures the network below it; nccl-tests measures NCCL.");
  }
  train::JobSite site = train::inspect_site(options.job);
  const int started = site.environment ? site.environment->world : std::max(2, site.usual_ranks().back());
  const int ranks = options.ranks > 0 ? options.ranks : started;
  if (site.environment && (started != ranks || started < 2)) {
    throw ConfigError(
        fmt::format("topo --measure wants {}, and the launcher started {}",
                    started < 2 ? "two ranks or more" : fmt::format("--ranks {}", ranks), started),
        "Every rank that a launcher starts takes part: leave --ranks out.");
  }
  return {train::plan_job(std::move(site), ranks), options.pacing};
}

int measure_topo(const TopoOptions& options, const Arguments& command) {
  const TopoPlan plan = plan_topo(options);
  const train::JobSite& site = plan.job.site;
  if (!site.supervised()) train::check_backend(plan.job);
  if (options.dry_run) {
    if (site.speaks()) {
      print_result(fmt::format("{} ranks over {}: {} pairs, about {}\n", plan.job.ranks, site.options.backend,
                               plan.job.ranks * (plan.job.ranks - 1) / 2,
                               format_duration(plan.estimate_s())));
    }
    return kExitDone;
  }
  std::vector<UniqueFd> claims;
  if (!site.supervised() && site.speaks()) {
    const std::vector<GivenFile> outputs{{"--json", options.json}, {"--svg", options.svg}};
    check_output_files(outputs, {}, options.force);
    claims = claim_outputs(outputs);
  }
  const char* address = std::getenv(kLinksVariable);
  const KeptText kept = site.supervised() && address != nullptr ? KeptText::open(address) : KeptText::make();
  const auto show = [&](const std::string& incomplete) {
    const std::string text = kept.read();
    if (text.empty()) return;
    links::Record record = links::from_json(text, "the record of this run");
    record.command = command_text(command);
    record.incomplete = incomplete;
    show_links(options, record);
  };
  const int code = train::run_job(
      plan.job,
      [&](const train::JobRank& rank) {
        measure_links(plan, rank, [&](const links::Record& so_far) { kept.write(links::to_json(so_far)); });
      },
      {.departure =
           [&](const Trouble& reason) {
             if (!reason) return;
             print_departure(reason);
             show(reason.what);
           },
       .note = print_note,
       .warning = print_warning},
      {{kLinksVariable, kept.address()}});
  if (code == kExitDone && site.speaks() && !site.supervised()) show("");
  return code;
}

int run_topo(const TopoOptions& options, const Arguments& command) {
  if (options.quiet) set_quiet(true);
  if (options.measure) {
    if (!options.from.empty())
      throw ConfigError("topo takes --measure or --from, not both", "--from shows what was measured before.");
    return report_once([&] { return measure_topo(options, command); });
  }
  // Checked up front: inspecting the machine takes a while.
  check_output_files({{"--json", options.json}, {"--svg", options.svg}}, {{"--from", options.from}},
                     options.force);
  if (options.from.empty()) return show_system(options, topology::inspect_system());
  const NamedText file = read_given(options.from);
  if (links::is_record(file.text)) return show_links(options, links::from_json(file.text, file.name));
  return show_system(options, results::system_from_text(file.text, file.name));
}

}  // namespace

RunCommand add_topo(Flags& flags) {
  const auto options = std::make_shared<TopoOptions>();
  flags.set_examples(kTopoExamples);
  flags.add(
      "--from", options->from,
      "show a recorded machine: a file of 'lockstep topo --json FILE', with --measure or without, or XML "
      "of hwloc's lstopo [this machine]",
      {.value = "FILE"});
  flags.begin_group("Measuring the links between ranks");
  flags.add_switch("--measure", options->measure,
                   "latency and bandwidth between every two ranks, which interfaces they take, and what is "
                   "wrong with them");
  flags.add("--ranks", options->ranks, "number of ranks [the cores, or the launcher's ranks]",
            {.numbers = NumberRange{.least = 2, .most = results::kMostRanks}});
  flags.add("--pair-time", options->pacing.pair_s, "seconds for each pair of ranks, over five rounds",
            {.numbers = times_from(0)});
  flags.add("--backend", options->job.backend,
            "gloo: TCP sockets, as gloo takes them; mpi, thread: messages of that library");
  flags.add_switch("--dry-run", options->dry_run, "print what would be measured, and how long it takes");
  flags.begin_group("Output");
  flags.add("--json", options->json,
            "write JSON to this file, without --measure in place of tables; - for stdout", {.value = "FILE"});
  flags.add("--svg", options->svg, "draw hosts, sockets, GPUs and the links between ranks into this file",
            {.value = "FILE"});
  add_force_flag(flags, options->force);
  flags.add_switch("--markdown", options->markdown, "write tables as GitHub's Markdown");
  flags.add_switch("-q,--quiet", options->quiet, "print no notes and no progress");
  add_job_flags(flags, options->job, /*devices=*/false);
  return [options, &flags](const Arguments& arguments) {
    if (!options->measure) {
      flags.refuse({"--ranks", "--pair-time", "--backend", "--dry-run", "--threads", "--bind", "--launch",
                    "--interface", "--timeout", "--join-timeout"},
                   "without --measure", "lockstep topo --measure measures the links between ranks.");
    }
    return run_topo(*options, arguments);
  };
}

}  // namespace lockstep::cli
