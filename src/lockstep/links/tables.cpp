#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/units.h"
#include "lockstep/links/findings.h"
#include "lockstep/links/report.h"
#include "lockstep/plots/page.h"

namespace lockstep::links {
namespace {

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
