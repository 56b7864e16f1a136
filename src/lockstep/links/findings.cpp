#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/units.h"
#include "lockstep/links/report.h"
#include "lockstep/measure/series.h"
#include "lockstep/plots/page.h"

namespace lockstep::links {
namespace {

using Flows = std::vector<const Flow*>;

/// A property of a flow of which more is better.
struct Quantity {
  double (*value)(const Flow&);
  double (*best)(const Flow&);
  /// Share of the usual value below which a flow is far from it.
  double far;
  /// A sentence about `who`, whose flows go `way` ("sends", ...): "who reaches 0.9 of the others' 9.4
  /// Gbit/s".
  std::string (*text)(const std::string& who, const std::string& way, double value, double usual);
};

std::string gbit_text(double gbit_per_s) {
  return format_number(gbit_per_s, 2);
}

/// The value of the second best round: what disturbs a healthy flow costs some of its rounds, while a queue
/// that was emptied late adds to one.
double second_best(const std::vector<double>& rounds, bool more_is_better) {
  std::vector<double> sorted = measure::sorted_copy(rounds);
  if (more_is_better) std::ranges::reverse(sorted);
  return sorted[std::min<size_t>(1, sorted.size() - 1)];
}

const Quantity kRate{[](const Flow& flow) { return flow.gbit_per_s; },
                     [](const Flow& flow) { return second_best(flow.rounds_gbit_per_s, true); }, 0.75,
                     [](const std::string& who, const std::string& way, double value, double usual) {
                       return fmt::format("{} {} {} of the others' {} Gbit/s", who, way, gbit_text(value),
                                          gbit_text(usual));
                     }};
const Quantity kSpeed{[](const Flow& flow) { return 1 / flow.latency_s; },
                      [](const Flow& flow) { return 1 / second_best(flow.rounds_latency_s, false); }, 0.3,
                      [](const std::string& who, const std::string& /*way*/, double value, double usual) {
                        return fmt::format("{}: a message takes {}, the others' {}", who,
                                           format_duration(1 / value), format_duration(1 / usual));
                      }};

std::vector<double> values_of(const Flows& flows, const Quantity& quantity) {
  std::vector<double> values;
  for (const Flow* flow : flows) values.push_back(quantity.value(*flow));
  return values;
}

/// The 75th percentile of the flows: with several bad hosts, most of them may be bad.
double usual(const Flows& flows, const Quantity& quantity) {
  constexpr double kPercentile = 75;
  return flows.empty() ? 0 : measure::percentile(values_of(flows, quantity), kPercentile);
}

Flows flows_of_kind(const Record& record, const std::string& kind) {
  Flows flows;
  for (const Flow& flow : record.flows) {
    if (flow.kind == kind) flows.push_back(&flow);
  }
  return flows;
}

/// "ranks 4 to 7", "rank 5", "ranks 1 and 3".
std::string ranks_text(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks[0]);
  if (ranks.back() - ranks.front() + 1 == std::ssize(ranks))
    return fmt::format("ranks {} {} {}", ranks.front(), ranks.size() == 2 ? "and" : "to", ranks.back());
  return fmt::format("ranks {}", fmt::join(ranks, ", "));
}

/// Ranks that are judged together.
struct Party {
  std::string name;
  std::vector<int> ranks;

  bool has(int rank) const { return std::ranges::find(ranks, rank) != ranks.end(); }
  bool sends(const Flow& flow) const { return has(flow.from); }
  bool receives(const Flow& flow) const { return has(flow.to); }
};

/// Searches the flows of one quantity, from whole hosts to pairs of ranks. A flow that a finding explains
/// takes no part in the next.
class Search {
 public:
  Search(Flows flows, const Quantity& quantity) : flows_(std::move(flows)), quantity_(quantity) {}

  void judge(const std::vector<Party>& parties) {
    for (const Party& party : parties) judge(party);
    for (size_t one = 0; one < parties.size(); ++one) {
      for (size_t other = one + 1; other < parties.size(); ++other) judge(parties[one], parties[other]);
    }
  }

  std::vector<std::string> take() && {
    if (pairs_.size() > kMostPairs) {
      const std::string rest =
          fmt::format("{} more pairs are as far below the others", pairs_.size() - kMostPairs);
      pairs_.resize(kMostPairs);
      pairs_.push_back(rest);
    }
    texts_.insert(texts_.end(), pairs_.begin(), pairs_.end());
    return std::move(texts_);
  }

 private:
  static constexpr size_t kMostPairs = 5;
  using Choose = std::function<bool(const Flow&)>;

  Flows chosen(const Choose& choose) const {
    Flows flows;
    std::ranges::copy_if(flows_, std::back_inserter(flows), [&](const Flow* flow) { return choose(*flow); });
    return flows;
  }

  /// Adds a finding where all flows of `own` are far below `others`. Returns whether they are.
  bool find(const Choose& is_own, const Choose& is_other, const std::string& who, const char* way,
            std::vector<std::string>& into) {
    const Flows own = chosen(is_own), others = chosen(is_other);
    // A single pair of others could as well be a better one than usual.
    if (own.empty() || others.size() < 2) return false;
    const double reference = usual(others, quantity_);
    const auto is_far = [&](const Flow* flow) { return quantity_.best(*flow) < quantity_.far * reference; };
    if (!std::ranges::all_of(own, is_far)) return false;
    into.push_back(quantity_.text(who, way, measure::median_of(values_of(own, quantity_)), reference));
    std::erase_if(flows_, [&](const Flow* flow) { return is_own(*flow); });
    return true;
  }

  void judge(const Party& party) {
    const Choose sends = [&](const Flow& flow) { return party.sends(flow) && !party.receives(flow); };
    const Choose receives = [&](const Flow& flow) { return party.receives(flow) && !party.sends(flow); };
    const Choose either = [&](const Flow& flow) { return party.sends(flow) != party.receives(flow); };
    const Choose neither = [&](const Flow& flow) { return !party.sends(flow) && !party.receives(flow); };
    const bool several = party.ranks.size() > 1;
    find(either, neither, party.name, several ? "reach" : "reaches", texts_) ||
        find(sends, neither, party.name, several ? "send" : "sends", texts_) ||
        find(receives, neither, party.name, several ? "receive" : "receives", texts_);
  }

  void judge(const Party& one, const Party& other) {
    const Choose there = [&](const Flow& flow) { return one.sends(flow) && other.receives(flow); };
    const Choose back = [&](const Flow& flow) { return other.sends(flow) && one.receives(flow); };
    const Choose either = [&](const Flow& flow) { return there(flow) || back(flow); };
    const Choose neither = [&](const Flow& flow) { return !either(flow); };
    const auto name = [](const Party& from, const char* joint, const Party& to) {
      return fmt::format("{} {} {}", from.name, joint, to.name);
    };
    find(either, neither, name(one, "and", other) + ", both ways,", "reach", pairs_) ||
        find(there, neither, name(one, "to", other), "reaches", pairs_) ||
        find(back, neither, name(other, "to", one), "reaches", pairs_);
  }

  Flows flows_;
  const Quantity& quantity_;
  std::vector<std::string> texts_, pairs_;
};

std::vector<Party> hosts_of(const Record& record) {
  std::vector<Party> parties;
  for (int host = 0; host < std::ssize(record.hosts); ++host) {
    Party party;
    for (int rank = 0; rank < std::ssize(record.ranks); ++rank) {
      if (record.ranks[size_t(rank)].host == host) party.ranks.push_back(rank);
    }
    if (party.ranks.empty()) continue;
    party.name = fmt::format("{} ({})", ranks_text(party.ranks), record.host_name(host));
    parties.push_back(std::move(party));
  }
  return parties;
}

std::vector<Party> ranks_of(const Record& record) {
  std::vector<Party> parties;
  for (int rank = 0; rank < std::ssize(record.ranks); ++rank) {
    parties.push_back(
        {fmt::format("rank {} ({})", rank, record.host_name(record.ranks[size_t(rank)].host)), {rank}});
  }
  return parties;
}

const Interface* interface_of(const Record& record, int rank) {
  const std::vector<Interface>& all = record.host_of(rank).interfaces;
  const auto found = std::ranges::find(all, record.ranks[size_t(rank)].interface, &Interface::name);
  return found == all.end() ? nullptr : &*found;
}

bool lead_to_each_other(const Interface& one, const Interface& other) {
  return std::ranges::any_of(one.addresses, [&](const std::string& a) {
    return std::ranges::any_of(other.addresses, [&](const std::string& b) { return on_one_network(a, b); });
  });
}

std::string interface_text(const Interface& interface) {
  return fmt::format("{} ({} Gbit/s)", interface.name, format_number(*interface.gbit_per_s, 3));
}

constexpr size_t kMostInMatrix = 16;
constexpr size_t kMostPairs = 10;

std::string rate_text(double gbit_per_s) {
  return fmt::format("{} Gbit/s", format_number(gbit_per_s, 2));
}

/// At most `letters` characters, 3 or 4.
std::string short_text(double value, int letters) {
  if (value >= (letters > 3 ? 9950 : 995)) return fmt::format("{:.0f}k", value / 1000);
  if (value < 0.995) return fmt::format("{:.2f}", value).substr(1);
  return value >= 9.95 ? fmt::format("{:.0f}", value) : fmt::format("{:.1f}", value);
}

std::string matrix(const Record& record, double (*value)(const Flow&)) {
  const size_t ranks = record.ranks.size();
  // Fits into 80 columns.
  const int letters = ranks > 14 ? 3 : 4;
  std::vector<std::string> cells(ranks * ranks, "-");
  for (const Flow& flow : record.flows)
    cells[size_t(flow.from) * ranks + size_t(flow.to)] = short_text(value(flow), letters);
  size_t width = 2;
  for (const std::string& cell : cells) width = std::max(width, cell.size());
  std::string text = "from\\to";
  for (size_t to = 0; to < ranks; ++to) text += fmt::format(" {:>{}}", to, width);
  for (size_t from = 0; from < ranks; ++from) {
    text += fmt::format("\n{:>7}", from);
    for (size_t to = 0; to < ranks; ++to) text += fmt::format(" {:>{}}", cells[from * ranks + to], width);
  }
  return text + "\n";
}

results::Table worst_pairs(const Record& record) {
  std::vector<const Flow*> flows;
  for (const Flow& flow : record.flows) flows.push_back(&flow);
  std::map<std::string, double> usual;
  for (const Flow* flow : flows) {
    if (!usual.contains(flow->kind)) usual[flow->kind] = usual_gbit_per_s(record, flow->kind);
  }
  std::ranges::stable_sort(flows, {}, [&](const Flow* flow) { return flow->gbit_per_s / usual[flow->kind]; });
  results::Table table{
      .columns = {"from", "to", {"over", results::kText}, "Gbit/s", "low", "high", "of usual", "latency"}};
  for (size_t i = 0; i < std::min(kMostPairs, flows.size()); ++i) {
    const Flow& flow = *flows[i];
    table.add_row(
        {std::to_string(flow.from), std::to_string(flow.to), flow.kind, format_number(flow.gbit_per_s, 3),
         format_number(flow.low(), 3), format_number(flow.high(), 3),
         fmt::format("{:.0f} %", 100 * flow.gbit_per_s / usual[flow.kind]), format_duration(flow.latency_s)});
  }
  return table;
}

/// Ranks that have a host, an interface and an address in common, as a row each.
results::Table addresses(const Record& record) {
  results::Table table{.columns = {{"ranks", results::kText},
                                   {"host", results::kText},
                                   {"interface", results::kText},
                                   {"address", results::kText},
                                   "stated Gbit/s"}};
  for (size_t first = 0; first < record.ranks.size();) {
    const Rank& rank = record.ranks[first];
    size_t end = first + 1;
    const auto is_same = [&](const Rank& other) {
      return other.host == rank.host && other.address == rank.address && other.interface == rank.interface;
    };
    while (end < record.ranks.size() && is_same(record.ranks[end])) ++end;
    const std::vector<Interface>& all = record.hosts[size_t(rank.host)].interfaces;
    const auto used = std::ranges::find(all, rank.interface, &Interface::name);
    table.add_row(
        {end == first + 1 ? std::to_string(first) : fmt::format("{}-{}", first, end - 1),
         record.host_name(rank.host), rank.interface.empty() ? results::kNoValue : rank.interface,
         rank.address.empty() ? results::kNoValue : rank.address,
         used != all.end() && used->gbit_per_s ? format_number(*used->gbit_per_s, 3) : results::kNoValue});
    first = end;
  }
  return table;
}

/// "between hosts 9.4 Gbit/s (8.9 to 9.5), 24 us".
std::string kind_text(const Record& record, const char* kind) {
  double low = 0, high = 0;
  for (const Flow& flow : record.flows) {
    if (flow.kind != kind) continue;
    low = high == 0 ? flow.low() : std::min(low, flow.low());
    high = std::max(high, flow.high());
  }
  if (high == 0) return "";
  const char* place = kind == std::string(kNetwork)    ? "between hosts"
                      : kind == std::string(kLoopback) ? "within a host, over loopback,"
                                                       : "within a host, by shared memory,";
  return fmt::format("{} {} ({} to {}) and {}", place, rate_text(usual_gbit_per_s(record, kind)),
                     format_number(low, 2), format_number(high, 2),
                     format_duration(usual_latency_s(record, kind)));
}

std::string at_once_text(const Record& record) {
  const Flow* slowest = nullptr;
  for (const Flow& flow : record.flows) {
    if (flow.at_once_gbit_per_s &&
        (slowest == nullptr || *flow.at_once_gbit_per_s < *slowest->at_once_gbit_per_s))
      slowest = &flow;
  }
  if (slowest == nullptr) return "";
  return fmt::format(
      "All at once, each rank sending to the next: {} at least, from rank {} to {}, which has {} alone.",
      rate_text(*slowest->at_once_gbit_per_s), slowest->from, slowest->to, rate_text(slowest->gbit_per_s));
}

}  // namespace

std::vector<std::string> idle_interfaces(const Record& record) {
  /// Hosts by the pair of interfaces in words.
  std::map<std::pair<std::string, std::string>, std::set<int>> hosts;
  for (const Flow* flow : flows_of_kind(record, kNetwork)) {
    const Interface* from = interface_of(record, flow->from);
    const Interface* to = interface_of(record, flow->to);
    if (from == nullptr || to == nullptr || !from->gbit_per_s || !to->gbit_per_s) continue;
    // The slower end decides; an interface of almost its speed is no fault.
    const double least = 1.2 * std::min(*from->gbit_per_s, *to->gbit_per_s);
    const auto is_faster = [&](const Interface& one) { return one.gbit_per_s && *one.gbit_per_s > least; };
    for (const Interface& here : record.host_of(flow->from).interfaces) {
      for (const Interface& there : record.host_of(flow->to).interfaces) {
        if (!is_faster(here) || !is_faster(there) || !lead_to_each_other(here, there)) continue;
        if (&here == from) continue;
        hosts[{interface_text(*from), interface_text(here)}].insert(record.ranks[size_t(flow->from)].host);
      }
    }
  }
  std::vector<std::string> texts;
  for (const auto& [names, found] : hosts) {
    std::vector<std::string> list;
    for (const int host : found) list.push_back(record.host_name(host));
    texts.push_back(fmt::format(
        "{} on {} is idle, while the ranks talk over {}: --interface {} takes it (NCCL_SOCKET_IFNAME, "
        "GLOO_SOCKET_IFNAME)",
        names.second,
        list.size() == record.hosts.size() ? "all hosts" : fmt::format("{}", fmt::join(list, ", ")),
        names.first, names.second.substr(0, names.second.find(' '))));
  }
  return texts;
}

double usual_gbit_per_s(const Record& record, const std::string& kind) {
  return usual(flows_of_kind(record, kind), kRate);
}

double usual_latency_s(const Record& record, const std::string& kind) {
  const double speed = usual(flows_of_kind(record, kind), kSpeed);
  return speed > 0 ? 1 / speed : 0;
}

std::vector<std::string> findings(const Record& record) {
  std::vector<std::string> all;
  const std::vector<Party> hosts = hosts_of(record), ranks = ranks_of(record);
  for (const Quantity& quantity : {kRate, kSpeed}) {
    Search search(flows_of_kind(record, kNetwork), quantity);
    search.judge(hosts);
    if (hosts.size() < ranks.size()) search.judge(ranks);
    std::ranges::move(std::move(search).take(), std::back_inserter(all));
  }
  std::ranges::move(idle_interfaces(record), std::back_inserter(all));
  return all;
}

std::vector<std::string> shared_links(const Record& record) {
  /// Share of a flow's own rate below which it shares something.
  constexpr double kShared = 0.6;
  const Flow* worst = nullptr;
  int count = 0;
  for (const Flow* flow : flows_of_kind(record, kNetwork)) {
    if (!flow->at_once_gbit_per_s || *flow->at_once_gbit_per_s >= kShared * flow->low()) continue;
    ++count;
    if (worst == nullptr ||
        *flow->at_once_gbit_per_s / flow->gbit_per_s < *worst->at_once_gbit_per_s / worst->gbit_per_s)
      worst = flow;
  }
  if (worst == nullptr) return {};
  return {
      fmt::format("While all ranks send, rank {} to {} gets {} of its {} Gbit/s{}: they share a link, or "
                  "have no cores left.",
                  worst->from, worst->to, gbit_text(*worst->at_once_gbit_per_s), gbit_text(worst->gbit_per_s),
                  count > 1 ? fmt::format(", and {} more lose as well", count - 1) : "")};
}

results::Document tables(const Record& record) {
  std::vector<std::string> kinds;
  for (const char* kind : {kNetwork, kLoopback, kMemory}) {
    if (std::string text = kind_text(record, kind); !text.empty()) kinds.push_back(std::move(text));
  }
  results::Document document = results::Remark{
      "", fmt::format("{} on {}, messages of {}: {} as a rule.", counted(std::ssize(record.ranks), "rank"),
                      counted(std::ssize(record.hosts), "host"), record.backend, fmt::join(kinds, "; "))};
  for (const std::string& warning : record.warnings)
    document.add(results::Remark{"Warning: ", warning + "."});
  for (const std::string& note : shared_links(record)) document.add(results::Remark{"", note});
  if (!record.incomplete.empty())
    document.add(results::Remark{"Warning: ", "rounds are missing: " + record.incomplete});
  document.add(results::Heading{"Addresses", true});
  document.add(addresses(record));
  if (record.ranks.size() <= kMostInMatrix) {
    document.add(results::Heading{"Gbit/s, each pair alone", true});
    document.add(results::Preformatted{matrix(record, [](const Flow& flow) { return flow.gbit_per_s; })});
    document.add(results::Heading{"Latency in us, half a round trip of 8 bytes", true});
    document.add(
        results::Preformatted{matrix(record, [](const Flow& flow) { return 1e6 * flow.latency_s; })});
  } else {
    document.add(results::Heading{"Worst pairs", true});
    document.add(worst_pairs(record));
  }
  if (const std::string text = at_once_text(record); !text.empty()) document.add(results::Remark{"", text});
  return document;
}

std::string page(const Record& record) {
  const plots::ChartForm form{.width = 640, .id = "links"};
  std::string body =
      plots::section_html("Hosts and links", plots::figure_html(drawing(record, form), "links", form) +
                                                 plots::to_html(tables(record)));
  return plots::page_of("What the network gives", fmt::format("{} · {}", record.host_name(0), record.command),
                        body);
}

}  // namespace lockstep::links
