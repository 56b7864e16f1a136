#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/json_codec.h"
#include "lockstep/base/units.h"
#include "lockstep/comm/backend.h"
#include "lockstep/comm/invitation.h"
#include "lockstep/comm/listening_address.h"
#include "lockstep/topology/inspect.h"
#include "lockstep/train/job/job_links.h"
#include "lockstep/train/job/versions.h"

#include "console.h"
#include "topo_plan.h"

namespace lockstep::cli {
namespace {

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

}  // namespace

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

}  // namespace lockstep::cli
