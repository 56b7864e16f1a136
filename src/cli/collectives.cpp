#include <algorithm>
#include <cstdlib>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/host_name.h"
#include "lockstep/base/plain_text.h"
#include "lockstep/base/units.h"
#include "lockstep/collectives/measure.h"
#include "lockstep/collectives/record.h"
#include "lockstep/comm/backend.h"
#include "lockstep/comm/invitation.h"
#include "lockstep/comm/listening_address.h"
#include "lockstep/train/job/job_links.h"
#include "lockstep/train/job/versions.h"

#include "collectives_plan.h"
#include "commands.h"
#include "console.h"
#include "kept_record.h"
#include "output_files.h"
#include "shared_flags.h"

namespace lockstep::cli {
namespace {

using collectives::Link;
using collectives::Record;
using collectives::Row;

constexpr const char* kCollectivesExamples = R"(Examples:
  lockstep collectives
      all_reduce over gloo on 2, 4, ... ranks, beside what sockets give
  lockstep collectives --collective all_reduce,all_gather --backend gloo,mpi --sizes 8B..64MiB --json links.json
      two libraries; lockstep plot links.json --chart bandwidth -o links.svg draws them
  lockstep collectives --sizes model:resnet50 --while computing
      the buckets that DDP sends for a network, also while the cores compute: what overlap costs
  mpirun -np 4 lockstep collectives --backend mpi --ranks 2,4
      on ranks that a launcher started
  lockstep collectives --import all_reduce.txt --json nccl.json
      what nccl-tests or the OSU micro-benchmarks printed
lockstep diff, report, show and plot read the file of --json. docs/collectives.md explains the columns.
)";

/// Set by the parent: where rank 0 keeps what it has measured, and the backend that its ranks are for.
constexpr const char* kKeptVariable = "LOCKSTEP_COLLECTIVES";
constexpr const char* kBackendVariable = "LOCKSTEP_COLLECTIVES_BACKEND";

struct CollectivesOptions {
  CollectivesOptions() {
    job.device = "cpu";
    job.backend = "gloo";
  }

  std::vector<std::string> collectives{"all_reduce"};
  std::vector<std::string> sizes{"4KiB..64MiB"};
  std::vector<int> ranks;
  std::vector<std::string> dtypes{"fp32"};
  std::vector<std::string> places;
  std::vector<int> at_a_time{1};
  std::string meanwhile = "idle";
  collectives::Pacing pacing;
  train::JobOptions job;
  std::vector<std::string> imports;
  std::string json;
  bool force = false;
  bool markdown = false;
  bool dry_run = false;
  bool quiet = false;
};

std::vector<int64_t> sizes_of(const CollectivesOptions& options) {
  constexpr int64_t kUsualBucket = 25 * kMiB;
  constexpr std::string_view kModel = "model:";
  std::vector<int64_t> sizes;
  for (const std::string& text : options.sizes) {
    std::vector<int64_t> more =
        text.starts_with(kModel)
            ? collectives::bucket_sizes(parameter_values(text.substr(kModel.size())), kUsualBucket)
            : collectives::parse_sizes(text);
    sizes.insert(sizes.end(), more.begin(), more.end());
  }
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

/// Names of backends, which JobOptions has as one text.
std::vector<std::string> backends_of(const CollectivesOptions& options) {
  std::vector<std::string> names = split_at_commas(options.job.backend);
  for (const std::string& name : names) {
    comm::backend_status(name);
    if (name == train::kNccl) {
      throw ConfigError(
          "collectives measures host memory, which --backend nccl does not carry",
          "nccl-tests measures NCCL: 'lockstep collectives --import FILE' reads what it prints.");
    }
  }
  return names;
}

/// Rows in the order in which they are measured, of every combination that its collective has.
std::vector<Row> rows_of(const CollectivesOptions& options, const std::string& backend,
                         const std::vector<int>& ranks) {
  const std::vector<int64_t> sizes = sizes_of(options);
  std::vector<Row> rows;
  for (const int count : ranks) {
    for (const std::string& name : options.collectives) {
      const collectives::Operation& operation = collectives::operations().get(name);
      // One of several numbers of ranks: left out, as every collective is that cannot be.
      if (!operation.kind && count < 2 && ranks.size() > 1) continue;
      for (const char* place : {collectives::kOutOfPlace, collectives::kInPlace}) {
        const bool offered = place == collectives::kInPlace ? operation.in_place : operation.out_of_place;
        const bool wanted =
            options.places.empty() || std::ranges::find(options.places, place) != options.places.end();
        if (!offered || !wanted) continue;
        for (const std::string& dtype : options.dtypes) {
          for (const int lanes : options.at_a_time) {
            for (const bool computing : {false, true}) {
              if (computing && options.meanwhile == "idle") continue;
              for (const int64_t bytes : sizes) {
                Row row{.collective = name,
                        .backend = backend,
                        .ranks = count,
                        .bytes = bytes,
                        .dtype = dtype,
                        .place = place,
                        .at_a_time = lanes,
                        .computing = computing};
                collectives::settle(row);
                // Sizes below one element per rank are one and the same.
                if (rows.empty() || !rows.back().same_work(row)) rows.push_back(std::move(row));
              }
            }
          }
        }
      }
    }
  }
  if (!rows.empty()) return rows;
  throw ConfigError(fmt::format("no collective of {} works {} of place", fmt::join(options.collectives, ", "),
                                fmt::join(options.places, " or ")),
                    "Leave --place out: each is measured in the ways that it has.");
}

CollectivesPlan plan_collectives(const CollectivesOptions& options, const std::string& backend) {
  train::JobOptions job = options.job;
  job.backend = backend;
  // Threads of one process have no network; the other backends of the list may need it.
  if (backend != "gloo" && backends_of(options).size() > 1) job.interface.clear();
  train::JobSite site = train::inspect_site(job);
  std::vector<int> ranks = options.ranks;
  if (ranks.empty()) {
    ranks = site.usual_ranks();
    // One rank has nobody to talk to.
    if (ranks.size() > 1) ranks.erase(ranks.begin());
  }
  CollectivesPlan plan{.job = train::plan_job(std::move(site), std::ranges::max(ranks)),
                       .pacing = options.pacing,
                       .rows = rows_of(options, backend, ranks)};
  plan.pacing.compute_threads = plan.job.binding.threads_per_rank;
  return plan;
}

/// Throws ConfigError where the buffers of this host's ranks would not fit.
void check_buffers(const CollectivesPlan& plan) {
  const int64_t available = plan.job.site.machine.available_memory_bytes;
  for (const Row& row : plan.rows) {
    const int64_t needed = collectives::buffer_bytes(row) * std::min(row.ranks, plan.job.local_ranks());
    if (available == 0 || needed < available / 10 * 9) continue;
    throw ConfigError(
        fmt::format("{} of {} takes {} for the buffers of this host's ranks, which has {} free", row.series(),
                    format_bytes(row.bytes), format_bytes(needed), format_bytes(available)),
        "Use smaller --sizes or fewer --ranks.");
  }
}

/// Measures one backend after the other, and shows and writes what was measured.
class CollectivesRun {
 public:
  CollectivesRun(const CollectivesOptions& options, const Arguments& command) : options_(options) {
    record_.lockstep_version = train::lockstep_version();
    if (options_.imports.empty()) record_.host = host_name();
    record_.command = command_text(command);
  }

  int measure(const std::vector<CollectivesPlan>& plans) {
    for (const CollectivesPlan& plan : plans) {
      if (const int code = measure(plan); code != kExitDone) return code;
    }
    const train::JobSite& site = plans.front().job.site;
    return site.speaks() && !site.supervised() ? show() : kExitDone;
  }

  int import() {
    const collectives::ImportHints hints{
        .collective = options_.collectives.size() == 1 ? options_.collectives.front() : "",
        .ranks = options_.ranks.size() == 1 ? options_.ranks.front() : 0};
    record_.host.clear();
    for (const std::string& path : options_.imports) {
      collectives::ImportedText imported = collectives::import_text(read_file(path), path, hints);
      std::ranges::move(imported.rows, std::back_inserter(record_.rows));
      std::ranges::move(imported.notes, std::back_inserter(record_.notes));
    }
    return show();
  }

 private:
  int measure(const CollectivesPlan& plan) {
    const bool supervised = plan.job.site.supervised();
    const char* address = std::getenv(kKeptVariable);
    const KeptText kept = supervised && address != nullptr ? KeptText::open(address) : KeptText::make();
    const int code = train::run_job(
        plan.job,
        [&](const train::JobRank& rank) {
          measure_collectives(plan, rank,
                              [&](const Record& so_far) { kept.write(collectives::to_json(so_far)); });
        },
        {.departure =
             [&](const Trouble& reason) {
               if (!reason) return;
               print_departure(reason);
               take(kept);
               record_.incomplete = reason.what;
               if (!record_.rows.empty()) show();
             },
         .note = print_note,
         .warning = print_warning},
        {{kKeptVariable, kept.address()}, {kBackendVariable, plan.job.site.options.backend}});
    if (code == kExitDone) take(kept);
    return code;
  }

  void take(const KeptText& kept) {
    const std::string text = kept.read();
    if (text.empty()) return;
    Record measured = collectives::from_json(text, "the record of this run");
    std::ranges::move(measured.rows, std::back_inserter(record_.rows));
    std::ranges::move(measured.links, std::back_inserter(record_.links));
  }

  /// Fails where results were wrong.
  int show() {
    if (options_.imports.empty()) collectives::summarize(record_);
    // The file first: the reader of what is printed may be gone.
    if (!options_.json.empty()) write_result(options_.json, collectives::to_json(record_));
    if (options_.json != "-")
      print_result(results::to_text(collectives_tables(record_), stdout_form(options_.markdown)));
    return std::ranges::any_of(record_.rows, &Row::is_wrong) ? kExitFailed : kExitDone;
  }

  const CollectivesOptions& options_;
  Record record_;
};

int run_collectives(CollectivesOptions options, const Arguments& command) {
  if (options.quiet) set_quiet(true);
  std::vector<GivenFile> imports;
  for (const std::string& path : options.imports) imports.push_back({"--import", path});
  CollectivesRun run(options, command);
  if (options.markdown && options.json == "-")
    throw ConfigError("--markdown has no effect beside --json -, which takes the place of tables",
                      "Leave one of them out.");
  if (!imports.empty()) {
    if (options.ranks.size() > 1 || options.collectives.size() > 1)
      throw ConfigError("--import takes one --collective and one --ranks, which say what the text does not",
                        "Give one, or import texts of several one by one.");
    check_output_files({{"--json", options.json}}, imports, options.force);
    return run.import();
  }
  // A parent starts the ranks of one backend after the other.
  if (const char* backend = std::getenv(kBackendVariable); backend != nullptr) options.job.backend = backend;
  std::vector<CollectivesPlan> plans;
  for (const std::string& backend : backends_of(options)) plans.push_back(plan_collectives(options, backend));
  const train::JobSite& site = plans.front().job.site;
  if (!site.supervised()) {
    for (const CollectivesPlan& plan : plans) {
      train::check_backend(plan.job);
      check_buffers(plan);
    }
  }
  if (options.dry_run) {
    if (site.speaks()) print_result(plan_text(plans));
    return kExitDone;
  }
  std::vector<UniqueFd> claims;
  if (!site.supervised() && site.speaks()) {
    check_output_files({{"--json", options.json}}, {}, options.force);
    claims = claim_outputs({{"--json", options.json}});
    if (std::ranges::all_of(plans.front().rows, [](const Row& row) { return row.ranks == 1; }))
      print_warning("one rank has nobody to send to: its times are those of calls and copies", "");
  }
  return run.measure(plans);
}

/// Settings that the ranks must have in common beyond the job's options.
train::Fingerprint collectives_fingerprint(const CollectivesPlan& plan) {
  std::string rows;
  for (const Row& row : plan.rows) rows += fmt::format("{} {};", row.series(), row.bytes);
  uint64_t hash = train::kEmptyHash;
  train::add_text(hash, rows);
  const collectives::Pacing& pacing = plan.pacing;
  return {{"--iterations", pacing.iterations ? std::to_string(*pacing.iterations) : "auto"},
          {"--min-time", fmt::format("{:g}", pacing.min_time_s)},
          {"--warmup", std::to_string(pacing.warmup)},
          {"check", pacing.check ? "on" : "off"},
          {"rows", fmt::format("#{:016x}", hash)}};
}

/// Shows the row that is measured: on a terminal a line that is redrawn, otherwise a line per series.
class RowLine {
 public:
  explicit RowLine(size_t rows) : rows_(rows) {}
  ~RowLine() {
    if (drawn_) draw_progress("");
  }
  RowLine(const RowLine&) = delete;
  RowLine& operator=(const RowLine&) = delete;

  void begins(const Row& row) {
    const std::string series = row.series();
    ++row_;
    if (stderr_is_terminal() && !is_quiet()) {
      drawn_ = true;
      draw_progress(fmt::format("[{}/{}] {}: {}", row_, rows_, series, format_bytes(row.bytes)));
    } else if (series != series_) {
      print_note(fmt::format("[{}/{}] {} ...", row_, rows_, series));
    }
    series_ = series;
  }

 private:
  const size_t rows_;
  size_t row_ = 0;
  std::string series_;
  bool drawn_ = false;
};

/// The first ranks of the job while they measure their rows.
class RankRows {
 public:
  RankRows(const CollectivesPlan& plan, const train::JobRank& rank, RowLine& line,
           const std::function<void(const collectives::Record&)>& keep)
      : plan_(plan), rank_(rank), line_(line), keep_(keep) {}

  /// Collective over `group`.
  void measure(comm::Communicator& group, const comm::ConnectOptions& connect) {
    const bool first = rank_.environment.rank == 0;
    if (group.size() > 1) {
      rank_.progress.begin("the link");
      record_.links.push_back(measure_link(group, connect));
    }
    std::vector<std::unique_ptr<comm::Communicator>> duplicates;
    std::vector<comm::Communicator*> lanes{&group};
    for (Row row : plan_.rows) {
      if (row.ranks != group.size()) continue;
      for (int lane = int(lanes.size()); lane < row.at_a_time; ++lane)
        lanes.push_back(duplicates.emplace_back(group.duplicate()).get());
      rank_.progress.begin(row.series());
      if (first) line_.begins(row);
      collectives::measure_row(row, lanes, plan_.pacing,
                               [&](int64_t done) { rank_.progress.completed(done); });
      if (!first) continue;
      collectives::summarize(row);
      record_.rows.push_back(std::move(row));
      // Writing all rows after each would take longer than measuring them.
      if (now_s() > kept_at_s_ + 1) keep();
    }
  }

  void keep() {
    keep_(record_);
    kept_at_s_ = now_s();
  }

 private:
  Link measure_link(comm::Communicator& group, const comm::ConnectOptions& connect) const {
    // Open MPI takes shared memory within a host.
    const bool by_memory =
        group.backend() == "thread" || (group.backend() == "mpi" && rank_.environment.on_one_host());
    if (by_memory) return collectives::measure_memory(group);
    comm::ConnectOptions of_group = connect;
    of_group.size = group.size();
    const comm::Deadline deadline = comm::deadline_after(connect.timeout);
    const std::string prefix = fmt::format("link/{}/{}", group.backend(), group.size());
    return collectives::measure_sockets(
        group,
        comm::connect_ranks(rank_.store, prefix, group.rank(), group.size(),
                            comm::listening_address(rank_.store, prefix, of_group, deadline), deadline));
  }

  const CollectivesPlan& plan_;
  const train::JobRank& rank_;
  RowLine& line_;
  const std::function<void(const collectives::Record&)>& keep_;
  collectives::Record record_;
  double kept_at_s_ = 0;
};

}  // namespace

RunCommand add_collectives(Flags& flags) {
  const auto options = std::make_shared<CollectivesOptions>();
  const std::vector<std::string> names = collectives::operations().names();
  flags.set_examples(kCollectivesExamples);
  flags.set_modes({"--import"});
  const FlagUse importing{.modes = {"--import"}};
  flags.begin_group("What to measure (lists separated by commas)");
  flags.add("--collective", options->collectives, fmt::format("{}", fmt::join(names, ", ")),
            {.use = importing});
  flags.add(
      "--sizes", options->sizes,
      "sizes (4KiB,25MiB), ranges in doublings (8B..1GiB), or model:NAME for the buckets that DDP sends "
      "for a network; as nccl-tests counts, all ranks' parts together");
  flags.add("--ranks", options->ranks, "number of ranks [2, 4, ... up to the cores, or the launcher's ranks]",
            {.numbers = counts_up_to(results::kMostRanks), .use = importing});
  flags.add("--dtype", options->dtypes, "fp32, fp64, fp16, bf16, uint8, int32 or int64");
  flags.add("--place", options->places,
            "in: input and output in one buffer; out: in two [all that each collective has]",
            {.one_of = {"in", "out"}});
  flags.add("--at-a-time", options->at_a_time, "so many at once, each on a communicator of its own",
            {.numbers = counts_up_to(64)});
  flags.add("--while", options->meanwhile,
            "computing: measure everything again while the ranks' cores are busy as in a training step",
            {.one_of = {"idle", "computing"}});
  flags.add_switch("--no-check", options->pacing.check, "do not compare results with what they should be");
  flags.add("--backend", options->job.backend,
            "communication libraries: gloo, mpi, thread; 'lockstep info backends' says which are usable");
  flags.begin_group("How long");
  flags.add("--warmup", options->pacing.warmup, "iterations before those that count",
            {.numbers = counts_up_to(1e6)});
  flags.add("--iterations", options->pacing.iterations,
            "iterations of each size [as many as --min-time has, 10 to 1000]",
            {.numbers = counts_up_to(1e6)});
  flags.add("--min-time", options->pacing.min_time_s,
            "seconds of each size, unless --iterations says how many",
            {.numbers = times_from(0), .use = FlagUse{.never_beside = "--iterations"}});
  flags.begin_group("Output", importing);
  flags.add("--import", options->imports,
            "in place of measuring, read the text that nccl-tests or the OSU micro-benchmarks printed; "
            "--collective and --ranks say what it does not",
            {.value = "FILE", .repeated = true});
  flags.add("--json", options->json, "write all iterations to this file; - for stdout, in place of tables",
            {.value = "FILE"});
  add_force_flag(flags, options->force);
  flags.add_switch("--markdown", options->markdown, "write tables as GitHub's Markdown");
  flags.add_switch("--dry-run", options->dry_run, "print what would be measured", FlagUse{});
  flags.add_switch("-q,--quiet", options->quiet, "print no notes and no progress");
  add_job_flags(flags, options->job, /*devices=*/false);
  return [options, &flags](const Arguments& arguments) {
    // The text tells its collective unless the user does.
    if (!options->imports.empty() && !flags.given("--collective")) options->collectives.clear();
    return report_once([&] { return run_collectives(*options, arguments); });
  };
}

void measure_collectives(const CollectivesPlan& plan, const train::JobRank& rank,
                         const std::function<void(const collectives::Record&)>& keep) {
  train::agree_on("collectives", collectives_fingerprint(plan), plan.job, rank);
  const train::JobOptions& options = plan.job.site.options;
  const comm::ConnectOptions connect = train::connect_options(options, rank);
  const std::unique_ptr<comm::Communicator> all = comm::connect(options.backend, connect);
  RowLine line(plan.rows.size());
  RankRows rows(plan, rank, line, keep);
  std::set<int> sizes;
  for (const Row& row : plan.rows) sizes.insert(row.ranks);
  for (const int size : sizes) {
    const std::unique_ptr<comm::Communicator> part = size == all->size() ? nullptr : all->split_first(size);
    // The others sleep at the store: a blocking call of a library may poll, and would disturb.
    const std::string done = fmt::format("collectives/{}/{}", options.backend, size);
    if (rank.environment.rank >= size) {
      rank.progress.begin(fmt::format("waiting for {} ranks", size));
      rank.store.get(done, train::kUntilRowEnds);
      continue;
    }
    rows.measure(part ? *part : *all, connect);
    if (rank.environment.rank == 0) rank.store.set(done, "1");
  }
  if (rank.environment.rank == 0) rows.keep();
  all->barrier()->wait();
}

}  // namespace lockstep::cli
