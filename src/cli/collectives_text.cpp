#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"
#include "lockstep/measure/compare.h"
#include "lockstep/measure/series.h"
#include "lockstep/plots/curves.h"
#include "lockstep/plots/page.h"
#include "lockstep/plots/text.h"
#include "lockstep/results/tables/document.h"

#include "collectives_plan.h"
#include "console.h"

namespace lockstep::cli {
namespace {

using collectives::Record;
using collectives::Row;

std::string us_text(const std::optional<double>& seconds) {
  return seconds ? format_number(*seconds * 1e6, 3) : results::kNoValue;
}

/// Wrong results have no rate.
std::string rate_text(const Row& row, double gb_per_s) {
  return row.is_wrong() ? results::kNoValue : format_number(gb_per_s, 3);
}

/// Rows of each series, in the order of the record.
std::vector<std::vector<const Row*>> by_series(const Record& record) {
  std::vector<std::vector<const Row*>> all;
  std::map<std::string, size_t> known;
  for (const Row& row : record.rows) {
    const auto [at, fresh] = known.try_emplace(row.series(), all.size());
    if (fresh) all.emplace_back();
    all[at->second].push_back(&row);
  }
  return all;
}

/// A series in words; imported ones come in pairs.
std::string title_of(const Row& row) {
  return row.series() + (row.iteration_s.empty() && row.place == collectives::kInPlace ? ", in place" : "");
}

/// Bus bandwidths that large messages reach, in GB/s, ascending; docs/collectives.md names the sources.
constexpr std::pair<double, const char*> kLinks[] = {
    {0.117, "1 Gbit/s Ethernet"},
    {1.17, "10 Gbit/s Ethernet"},
    {2.9, "25 Gbit/s Ethernet"},
    {12, "100 Gbit/s Ethernet or InfiniBand, or PCIe 3.0 x16"},
    {24, "200 Gbit/s InfiniBand, or PCIe 4.0 x16"},
    {48, "400 Gbit/s InfiniBand, or PCIe 5.0 x16"},
    {120, "NVLink of V100"},
    {230, "NVLink of A100"},
    {370, "NVLink of H100"},
    {480, "NVLink of H100 with NVLink SHARP"},
    {830, "NVLink of B200"}};

/// The largest bus bandwidth beside those of kLinks; empty without one.
std::string peak_text(const Record& record) {
  const auto rate = [](const Row& row) { return row.is_wrong() || row.ranks < 2 ? 0 : row.bus_gb_per_s; };
  const auto peak = std::ranges::max_element(record.rows, {}, rate);
  if (peak == record.rows.end() || rate(*peak) <= 0) return "";
  std::string text = fmt::format("{} GB/s, {} of {} at {}", format_number(rate(*peak), 3), peak->collective,
                                 counted(peak->ranks, "rank"), format_bytes(peak->bytes));
  if (peak->bytes < kMiB) return text + ", where latency counts: larger sizes tell the link.";
  // Rates vary by some per cent.
  const auto above =
      std::ranges::upper_bound(kLinks, 1.1 * rate(*peak), {}, &std::pair<double, const char*>::first);
  text += ". Typical are";
  for (auto link = above - (above == std::begin(kLinks) ? 0 : 1); link < std::end(kLinks) && link <= above;
       ++link)
    text += fmt::format("{} {} over {}", link == above && above != std::begin(kLinks) ? " and" : "",
                        link->first, link->second);
  return text + ".";
}

results::Table table_of(const std::vector<const Row*>& rows) {
  results::Table table{.columns = {"size", "count", "redop", "time", "p90", "p99", "algbw", "busbw"}};
  const bool linked = std::ranges::any_of(rows, [](const Row* row) { return row->link_share.has_value(); });
  if (linked) table.add_column("of link");
  table.add_column("#wrong");
  const bool computing = rows.front()->computing;
  if (computing) {
    table.add_column("phi_n");
    table.add_column("phi_c");
  }
  for (const Row* row : rows) {
    std::vector<results::Cell> cells{std::to_string(row->bytes),
                                     std::to_string(row->count),
                                     row->op,
                                     us_text(row->median_s),
                                     us_text(row->p90_s),
                                     us_text(row->p99_s),
                                     rate_text(*row, row->algorithm_gb_per_s),
                                     rate_text(*row, row->bus_gb_per_s)};
    if (linked)
      cells.emplace_back(row->link_share ? fmt::format("{:.1f} %", 100 * *row->link_share)
                                         : results::kNoValue);
    cells.emplace_back(row->wrong ? std::to_string(*row->wrong) : row->deviation ? "some" : "N/A");
    if (computing) {
      cells.emplace_back(results::signed_percent_text(row->phi_n, 0));
      cells.emplace_back(results::signed_percent_text(row->phi_c, 0));
    }
    table.add_row(std::move(cells));
  }
  return table;
}

/// Sizes whose results are wrong; empty where none are.
std::string wrong_text(const std::vector<const Row*>& rows) {
  std::vector<std::string> sizes;
  for (const Row* row : rows) {
    if (row->is_wrong())
      sizes.push_back(fmt::format(
          "{} ({})", format_bytes(row->bytes),
          row->wrong ? counted(*row->wrong, "element") : "deviation " + format_number(*row->deviation, 3)));
  }
  return sizes.empty() ? ""
                       : fmt::format("{}-place results are wrong at {}.",
                                     rows.front()->place == collectives::kInPlace ? "in" : "out-of",
                                     fmt::join(sizes, ", "));
}

/// "25.0 MiB: 80 % around 1.21 ms, 20 % around 4.02 ms".
std::vector<std::string> modes_of(const std::vector<const Row*>& rows) {
  std::vector<std::string> texts;
  for (const Row* row : rows) {
    const std::optional<measure::TwoModes> modes = measure::two_modes(row->iteration_s);
    if (!modes) continue;
    texts.push_back(fmt::format("{}: {:.0f} % around {}, {:.0f} % around {}", format_bytes(row->bytes),
                                100 * (1 - modes->slow_share), format_duration(modes->fast),
                                100 * modes->slow_share, format_duration(modes->slow)));
  }
  return texts;
}

std::string link_text(const collectives::Link& link) {
  std::string text =
      fmt::format("{} at {}: {} {} GB/s", link.backend, counted(link.ranks, "rank"),
                  link.kind == "sockets" ? "sockets between the ranks give, in each direction at once,"
                                         : "the ranks' memory is copied with, all at once,",
                  format_number(link.gb_per_s, 3));
  if (link.latency_s) text += fmt::format("; half a round trip takes {}", format_duration(*link.latency_s));
  return text;
}

/// A copy whose rows have the backend of `other`, where each has one alone and not the same: what differs is
/// what is compared.
Record as_comparable(const Record& record, const Record& other) {
  const auto backends = [](const Record& of) {
    std::set<std::string> names;
    for (const Row& row : of.rows) names.insert(row.backend);
    return names;
  };
  Record copy = record;
  const std::set<std::string> own = backends(record), others = backends(other);
  if (own.size() == 1 && others.size() == 1) {
    for (Row& row : copy.rows) row.backend = *others.begin();
  }
  return copy;
}

}  // namespace

std::string plan_text(const std::vector<CollectivesPlan>& plans) {
  std::string text;
  for (const CollectivesPlan& plan : plans) {
    std::string series;
    for (const Row& row : plan.rows) {
      if (row.series() != series) text += (text.empty() ? "" : "\n") + row.series() + ":";
      series = row.series();
      text += " " + format_bytes(row.bytes);
    }
  }
  return fitted(text + "\n");
}

results::Document collectives_tables(const Record& record) {
  results::Document document;
  for (const std::vector<const Row*>& rows : by_series(record)) {
    document.add(results::Heading{title_of(*rows.front())});
    document.add(table_of(rows));
    const std::vector<std::string> modes = modes_of(rows);
    if (!modes.empty())
      document.add(results::Remark{"Two levels: ", fmt::format("{}.", fmt::join(modes, "; "))});
    const std::string wrong = wrong_text(rows);
    if (!wrong.empty()) document.add(results::Remark{"Warning: ", wrong});
  }
  const std::string peak = peak_text(record);
  if (!peak.empty()) document.add(results::Remark{"Peak bus bandwidth: ", peak});
  const bool imported =
      std::ranges::all_of(record.rows, [](const Row& row) { return row.iteration_s.empty(); });
  document.add(results::Remark{
      "",
      fmt::format(
          "size in bytes, time in us ({}), bandwidth in GB/s{}. lockstep docs collectives explains the "
          "columns.",
          imported ? "the mean that was printed" : "median, p90 and p99 of the slowest rank",
          imported ? "" : "; of link: bus bandwidth as a share of the link's"),
      true});
  std::vector<std::string> links;
  for (const collectives::Link& link : record.links) links.push_back(link_text(link));
  if (!links.empty()) document.add(results::Remark{"Links: ", fmt::format("{}.", fmt::join(links, "; "))});
  if (!record.incomplete.empty())
    document.add(results::Remark{"Warning: ", "rows are missing: " + record.incomplete});
  for (const std::string& note : record.notes) document.add(results::Remark{"Note: ", note + "."});
  return document;
}

results::Document collectives_diff(const Record& base, const Record& test) {
  const Record other = as_comparable(test, base);
  struct Pair {
    const Row* base;
    const Row* test;
  };
  std::vector<Pair> pairs;
  std::vector<measure::Comparison> verdicts;
  for (const Row& row : base.rows) {
    const auto match = std::ranges::find_if(other.rows, [&](const Row& one) { return one.same_work(row); });
    if (match == other.rows.end()) continue;
    pairs.push_back({&row, &*match});
    measure::Comparison verdict =
        measure::compare({row.iteration_s}, {match->iteration_s}, {.quantile = 0.5});
    verdict.base_s = row.median_s;
    verdict.test_s = match->median_s;
    verdict.ratio = match->median_s / row.median_s;
    verdicts.push_back(std::move(verdict));
  }
  if (pairs.empty()) {
    throw Error(
        "the two files have no row in common: a row is a collective at one size, number of ranks, "
        "type and place",
        "Measure both with the same --collective, --sizes and --ranks.");
  }
  measure::correct_for_rows(verdicts);
  results::Document document;
  std::string series;
  results::Table table;
  const auto end_table = [&] {
    if (table.rows.empty()) return;
    document.add(results::Heading{series});
    document.add(std::move(table));
  };
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto& [before, after] = pairs[i];
    if (before->series() != series) {
      end_table();
      series = before->series();
      table = {
          .columns = {
              "size", "base", "test", "change", "base busbw", "test busbw", {"verdict", results::kText}}};
    }
    table.add_row({std::to_string(before->bytes), us_text(before->median_s), us_text(after->median_s),
                   fmt::format("{:+.1f} %", 100 * (verdicts[i].ratio - 1)),
                   rate_text(*before, before->bus_gb_per_s), rate_text(*after, after->bus_gb_per_s),
                   std::string(measure::verdict_text(verdicts[i].verdict))});
  }
  end_table();
  std::string remark =
      "size in bytes, base and test: median time in us; change of the time. Verdicts are about these runs: "
      "another start of the ranks may differ by more.";
  const size_t left_out = base.rows.size() + test.rows.size() - 2 * pairs.size();
  if (left_out > 0)
    remark += fmt::format(" {} of one file alone left out.", counted(int64_t(left_out), "row"));
  document.add(results::Remark{"", remark, true});
  return document;
}

std::vector<std::string> collectives_charts() {
  return {"transfer_time", "bandwidth"};
}

plots::Chart collectives_chart(const std::string& name, const std::vector<NamedCollectives>& records,
                               const plots::ChartForm& form) {
  const bool of_time = name == "transfer_time";
  plots::Chart chart{.title = of_time ? "Time against size" : "Bus bandwidth against size",
                     .description = of_time ? "Median time of the slowest rank by size, both on log axes."
                                            : "Bus bandwidth by size, both on log axes."};
  std::vector<plots::Curve> curves;
  for (const NamedCollectives& named : records) {
    for (const std::vector<const Row*>& rows : by_series(named.record)) {
      plots::Curve curve{.label = title_of(*rows.front())};
      if (records.size() > 1) curve.label += ", " + named.name;
      for (const Row* row : rows) {
        const double value = of_time ? row->median_s * 1e6 : row->bus_gb_per_s;
        if (results::positive(value) && !row->is_wrong())
          curve.points.push_back({double(row->bytes), value, {}});
      }
      std::ranges::stable_sort(curve.points, {}, &plots::CurvePoint::x);
      if (!curve.points.empty()) curves.push_back(std::move(curve));
    }
  }
  if (curves.empty()) {
    return plots::missing_chart(chart.title, "no row has a bus bandwidth, which needs two ranks",
                                "Measure some with `lockstep collectives --ranks 2 --json FILE`.");
  }
  curves = plots::most_telling(std::move(curves), chart.notes);
  return plots::size_chart(std::move(chart), form, curves, of_time ? "microseconds" : "GB per second",
                           of_time ? " us" : " GB/s");
}

std::string collectives_page(const std::vector<NamedCollectives>& records) {
  std::string charts;
  for (const std::string& name : collectives_charts()) {
    const plots::ChartForm form{.id = name};
    charts += plots::figure_html(collectives_chart(name, records, form), name, form);
  }
  std::string body = plots::section_html("Time and bandwidth", plots::grid_html(charts));
  for (const NamedCollectives& named : records)
    body += plots::section_html(plots::escape(named.name), plots::to_html(collectives_tables(named.record)));
  const Record& first = records.front().record;
  const std::string place = first.host.empty() ? "" : first.host + " · ";
  return plots::page_of("How fast the ranks communicate", place + first.command, body);
}

}  // namespace lockstep::cli
