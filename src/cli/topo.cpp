#include <algorithm>
#include <cstdlib>
#include <functional>

#include <fmt/format.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/json_codec.h"
#include "lockstep/base/plain_text.h"
#include "lockstep/base/units.h"
#include "lockstep/comm/backend.h"
#include "lockstep/comm/invitation.h"
#include "lockstep/comm/listening_address.h"
#include "lockstep/links/measure.h"
#include "lockstep/links/record.h"
#include "lockstep/links/report.h"
#include "lockstep/results/files/system_json.h"
#include "lockstep/results/tables/tables.h"
#include "lockstep/topology/system.h"
#include "lockstep/train/job/job_links.h"
#include "lockstep/train/job/job_plan.h"
#include "lockstep/train/job/run_job.h"
#include "lockstep/train/job/versions.h"

#include "commands.h"
#include "console.h"
#include "kept_record.h"
#include "output_files.h"
#include "shared_flags.h"

namespace lockstep::cli {
namespace {

/// The plan of `topo --measure`, the same on all ranks.
struct TopoPlan {
  train::JobPlan job;
  links::Pacing pacing;

  /// Seconds that all rounds take.
  double estimate_s() const { return job.ranks * (job.ranks - 1) / 2 * pacing.pair_s; }
};

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

/// Beginning of keys in the store: of the survey, and of the connections.
constexpr const char* kSurvey = "survey";
constexpr const char* kConnections = "links";

/// Where a rank is: what it tells the others of itself.
struct Whereabouts {
  /// comm::network_identity(): its network namespace.
  std::string identity;
  std::string address;
  std::string interface;

  LOCKSTEP_DESCRIBE(kRequired, identity, address, interface)
};

/// The record of all ranks, hosts and flows, without what is to be measured; on rank 0 alone complete.
/// Collective through the store.
links::Record survey(const train::JobRank& rank, const std::string& backend, const std::string& address) {
  const auto own = rank.environment.rank;
  const std::vector<links::Interface> interfaces = links::network_interfaces();
  const auto key = [](const char* what, int of) { return fmt::format("{}/{}/{}", kSurvey, what, of); };
  const auto get = [&](const std::string& name) { return rank.store.get(name, train::kUntilRowEnds); };
  rank.store.set(key("rank", own), to_bytes(Whereabouts{comm::network_identity(), address,
                                                        links::interface_with(interfaces, address)}));
  links::Record record{.lockstep_version = train::lockstep_version(), .backend = backend};
  std::vector<std::string> hosts;
  std::vector<int> first_of;
  for (int other = 0; other < rank.environment.world; ++other) {
    const auto where = from_bytes<Whereabouts>(get(key("rank", other)));
    auto host = std::ranges::find(hosts, where.identity);
    if (host == hosts.end()) {
      host = hosts.insert(host, where.identity);
      first_of.push_back(other);
    }
    record.ranks.push_back({static_cast<int>(host - hosts.begin()), where.address, where.interface});
  }
  for (size_t host = 0; host < hosts.size(); ++host) {
    const std::string name = key("host", static_cast<int>(host));
    // A host with GPUs takes a while, so one rank of it looks.
    if (first_of[host] == own)
      rank.store.set(name, to_bytes(links::Host{topology::inspect_system(), interfaces}));
    if (own == 0) record.hosts.push_back(from_bytes<links::Host>(get(name)));
  }
  for (const auto& [from, to] : links::flow_order(rank.environment.world)) {
    const bool together = record.ranks[size_t(from)].host == record.ranks[size_t(to)].host;
    const char* within = address.empty() ? links::kMemory : links::kLoopback;
    record.flows.push_back({.from = from, .to = to, .kind = together ? within : links::kNetwork});
  }
  std::ranges::sort(record.flows, {}, [](const links::Flow& flow) { return std::pair(flow.from, flow.to); });
  return record;
}

/// A line that is redrawn on a terminal; elsewhere one for each fifth of the way.
class ShareLine {
 public:
  ShareLine(bool shown, double estimate_s) : shown_(shown && !is_quiet()), estimate_s_(estimate_s) {}
  ~ShareLine() {
    if (shown_ && stderr_is_terminal()) draw_progress("");
  }
  ShareLine(const ShareLine&) = delete;
  ShareLine& operator=(const ShareLine&) = delete;

  void show(double share) {
    if (!shown_) return;
    const double left_s = share > 0 ? (now_s() - began_s_) / share * (1 - share) : estimate_s_;
    const std::string text =
        fmt::format("[{:.0f} %] every pair alone, about {} left", 100 * share, format_duration(left_s));
    if (stderr_is_terminal()) {
      draw_progress(text);
    } else if (share >= next_) {
      print_note(text);
      next_ += 0.2;
    }
  }

 private:
  const bool shown_;
  const double estimate_s_;
  const double began_s_ = now_s();
  double next_ = 0;
};

void measure_links(const TopoPlan& plan, const train::JobRank& rank,
                   const std::function<void(const links::Record&)>& keep) {
  train::agree_on("topo", {{"--pair-time", fmt::format("{:g}", plan.pacing.pair_s)}}, plan.job, rank);
  const train::JobOptions& options = plan.job.site.options;
  const comm::ConnectOptions connect = train::connect_options(options, rank);
  const std::unique_ptr<comm::Communicator> all = comm::connect(options.backend, connect);
  const comm::Deadline deadline = comm::deadline_after(connect.timeout);
  const bool by_sockets = options.backend == "gloo";
  const std::string address =
      by_sockets ? comm::listening_address(rank.store, kConnections, connect, deadline) : "";
  links::Record record = survey(rank, options.backend, address);
  const std::unique_ptr<links::Wire> wire =
      by_sockets ? links::socket_wire(comm::connect_ranks(rank.store, kConnections, connect.rank,
                                                          connect.size, address, deadline),
                                      connect.timeout)
                 : links::message_wire(*all);
  ShareLine line(connect.rank == 0, plan.estimate_s());
  rank.progress.begin("every pair alone");
  links::measure_flows(record, *all, *wire, rank.store, plan.pacing,
                       {.progress =
                            [&](double share) {
                              rank.progress.completed(static_cast<int64_t>(100 * share));
                              line.show(share);
                            },
                        .keep = keep});
  all->barrier()->wait();
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
  const bool tables = options.json != "-" && options.svg != "-" &&
                      (options.measure || (options.json.empty() && options.svg.empty()));
  if (options.markdown && !tables && options.from.empty())
    throw ConfigError("--markdown has no effect: --json or --svg take the place of tables", "Leave it out.");
  if (options.measure) return report_once([&] { return measure_topo(options, command); });
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
  flags.set_modes({"--from"});
  flags.add(
      "--from", options->from,
      "show a recorded machine: a file of 'lockstep topo --json FILE', with --measure or without, or XML "
      "of hwloc's lstopo [this machine]",
      {.value = "FILE"});
  flags.begin_group("Measuring the links between ranks", {.needs = "--measure"});
  flags.add_switch("--measure", options->measure,
                   "latency and bandwidth between every two ranks, which interfaces they take, and what is "
                   "wrong with them",
                   FlagUse{});
  flags.add("--ranks", options->ranks, "number of ranks [the cores, or the launcher's ranks]",
            {.numbers = NumberRange{.least = 2, .most = results::kMostRanks}});
  flags.add("--pair-time", options->pacing.pair_s, "seconds for each pair of ranks, over five rounds",
            {.numbers = times_from(0)});
  flags.add("--backend", options->job.backend,
            "gloo: TCP sockets, as gloo takes them; mpi, thread: messages of that library");
  flags.add_switch("--dry-run", options->dry_run, "print what would be measured, and how long it takes");
  flags.begin_group("Output", {.modes = {"--from"}});
  flags.add("--json", options->json,
            "write JSON to this file, without --measure in place of tables; - for stdout", {.value = "FILE"});
  flags.add("--svg", options->svg, "draw hosts, sockets, GPUs and the links between ranks into this file",
            {.value = "FILE"});
  add_force_flag(flags, options->force);
  flags.add_switch("--markdown", options->markdown, "write tables as GitHub's Markdown");
  flags.add_switch("-q,--quiet", options->quiet, "print no notes and no progress");
  add_job_flags(flags, options->job, /*devices=*/false, {.needs = "--measure"});
  return [options](const Arguments& arguments) { return run_topo(*options, arguments); };
}

}  // namespace lockstep::cli
