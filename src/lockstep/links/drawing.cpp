#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "lockstep/base/json_codec.h"
#include "lockstep/base/units.h"
#include "lockstep/links/findings.h"
#include "lockstep/links/host_drawing.h"
#include "lockstep/links/report.h"

namespace lockstep::links {
namespace {

using plots::Canvas;
using plots::Colour;
using plots::Point;
using topology::System;

constexpr double kRankRadius = 8;
constexpr double kHostGap = 14;
constexpr size_t kMostArcs = 120;

Colour colour_of_share(double share) {
  return share >= 0.75 ? Colour::kGreen : share >= 0.5 ? Colour::kOrange : Colour::kVermillion;
}

/// Lines of a legend below one another. Returns their height.
double draw_legend(Canvas& canvas, Point at, const std::vector<Shade>& shades, const char* dash = "") {
  double y = at.y;
  for (const Shade& shade : shades) {
    canvas.line({at.x, y - 4}, {at.x + 24, y - 4}, shade.colour, 2.5, dash);
    canvas.text({at.x + 32, y}, shade.label, {.colour = Colour::kMuted, .size = plots::kSmallTextSize});
    y += 17;
  }
  return y - at.y;
}

std::string title_of(const System& system, const std::string& name) {
  int64_t memory_bytes = 0;
  for (const topology::NumaNode& node : system.numa_nodes) memory_bytes += node.memory_bytes;
  return memory_bytes > 0 ? fmt::format("{}, {}", name, format_bytes(memory_bytes)) : name;
}

/// All of a system but its name.
std::string hardware_of(System system) {
  system.host.clear();
  return to_bytes(system);
}

/// A pair of ranks by the slower of its two directions.
struct Pair {
  const Flow* flow = nullptr;
  /// Share of the rate that its kind has as a rule.
  double share = 1;
};

std::vector<Pair> worst_first(const Record& record) {
  std::vector<Pair> pairs;
  for (const char* kind : {kNetwork, kLoopback, kMemory}) {
    const double usual = usual_gbit_per_s(record, kind);
    for (const Flow& flow : record.flows) {
      if (flow.kind != kind || flow.from > flow.to) continue;
      const auto back = std::ranges::find_if(
          record.flows, [&](const Flow& one) { return one.from == flow.to && one.to == flow.from; });
      const Flow* slower = back != record.flows.end() && back->gbit_per_s < flow.gbit_per_s ? &*back : &flow;
      pairs.push_back({slower, slower->gbit_per_s / usual});
    }
  }
  std::ranges::stable_sort(pairs, {}, &Pair::share);
  pairs.resize(std::min(pairs.size(), kMostArcs));
  return pairs;
}

struct DrawnHost {
  const System& system;
  std::string name;
  size_t ranks = 0;
  /// Where its next rank lies; draw_hosts sets the first.
  double rank_y = 0;
};

/// Draws hosts below one another. Returns the lower edge.
double draw_hosts(Canvas& canvas, std::vector<DrawnHost>& hosts, double width, std::vector<Shade>& shades) {
  double y = 0;
  std::string shown;
  for (DrawnHost& host : hosts) {
    const std::string hardware = hardware_of(host.system);
    const bool brief = hardware == shown;
    host.rank_y = y + (kPad + kRankStep) / 2;
    const std::string title = title_of(host.system, host.name) + (brief ? ", as above" : "");
    y = HostDrawing(canvas, host.system, width, shades).draw(y, title, brief, host.ranks) + kHostGap;
    shown = hardware;
  }
  return y;
}

double draw_gpu_legend(Canvas& canvas, double y, std::vector<Shade> shades) {
  if (shades.empty()) return 0;
  for (Shade& shade : shades) shade.label = "GPUs over " + shade.label;
  return draw_legend(canvas, {kPad, y + 10}, shades) + 6;
}

}  // namespace

plots::Chart drawing(const topology::System& system, const plots::ChartForm& form) {
  Canvas canvas(form.id);
  std::vector<Shade> shades;
  const std::string name = system.host.empty() ? "host" : system.host;
  std::vector<DrawnHost> hosts = {{system, name}};
  double y = draw_hosts(canvas, hosts, form.width, shades);
  y += draw_gpu_legend(canvas, y, shades);
  return plots::drawn({.title = "What " + name + " looks like",
                       .description = fmt::format("{}, {}.", counted(std::ssize(system.packages), "socket"),
                                                  counted(system.map.gpus(), "GPU"))},
                      canvas, form, y);
}

plots::Chart drawing(const Record& record, const plots::ChartForm& form) {
  Canvas canvas(form.id);
  const double arcs_width = form.width / 4, hosts_width = form.width - arcs_width;
  std::vector<DrawnHost> hosts;
  for (size_t i = 0; i < record.hosts.size(); ++i)
    hosts.push_back({record.hosts[i].system, record.host_name(static_cast<int>(i))});
  for (const Rank& rank : record.ranks) ++hosts[size_t(rank.host)].ranks;
  std::vector<Shade> shades;
  double y = draw_hosts(canvas, hosts, hosts_width, shades);

  std::vector<Point> ends;
  for (const Rank& rank : record.ranks) {
    double& rank_y = hosts[size_t(rank.host)].rank_y;
    ends.push_back({hosts_width, rank_y});
    rank_y += kRankStep;
  }
  const double tallest = ends.size() > 1 ? std::abs(ends.back().y - ends.front().y) : 1;
  const std::vector<Pair> pairs = worst_first(record);
  // The worst on top.
  for (auto pair = pairs.rbegin(); pair != pairs.rend(); ++pair) {
    const Point from = ends[size_t(std::min(pair->flow->from, pair->flow->to))];
    const Point to = ends[size_t(std::max(pair->flow->from, pair->flow->to))];
    const double depth =
        12 + (arcs_width - 20) * std::min(1.0, std::abs(to.y - from.y) / std::max(1.0, tallest));
    canvas.polyline(arc(from, to, depth), {.colour = colour_of_share(pair->share),
                                           .dash = pair->flow->kind == kNetwork ? "" : "4 3",
                                           .width = pair->share < 0.75 ? 2.5 : 1.5});
  }
  for (size_t rank = 0; rank < ends.size(); ++rank) {
    canvas.marker(ends[rank], {.colour = Colour::kInk}, kRankRadius);
    canvas.text({ends[rank].x, ends[rank].y + 4}, std::to_string(rank),
                {.colour = Colour::kSurface, .anchor = plots::Anchor::kMiddle, .size = 10, .bold = true});
  }
  for (const char* kind : {kNetwork, kLoopback, kMemory}) {
    const double usual = usual_gbit_per_s(record, kind);
    if (usual == 0) continue;
    std::vector<Shade> classes;
    const auto add = [&](double low, double high, const std::string& label) {
      const bool found = std::ranges::any_of(pairs, [&](const Pair& pair) {
        return pair.flow->kind == kind && pair.share >= low && pair.share < high;
      });
      if (found) classes.push_back({colour_of_share(low), label});
    };
    const std::string rate = format_number(usual, 2) + " Gbit/s";
    add(0.75, 1e9, fmt::format("{}: {} or near it", kind, rate));
    add(0.5, 0.75, fmt::format("{}: half of {} to three quarters", kind, rate));
    add(0, 0.5, fmt::format("{}: below half of {}", kind, rate));
    y += draw_legend(canvas, {kPad, y + 10}, classes, kind == std::string(kNetwork) ? "" : "4 3");
  }
  y += draw_gpu_legend(canvas, y, shades);
  plots::Chart chart{
      .title = "What connects the ranks",
      .description = fmt::format("{} on {}; an arc for each pair.", counted(std::ssize(record.ranks), "rank"),
                                 counted(std::ssize(record.hosts), "host"))};
  if (record.flows.size() / 2 > kMostArcs)
    chart.notes.push_back(fmt::format("The {} slowest pairs.", kMostArcs));
  for (const Pair& pair : pairs) {
    if (pair.share >= 0.75 || chart.notes.size() > 3) break;
    chart.notes.push_back(fmt::format("Rank {} to {}: {} Gbit/s, {:.0f} % of what is usual.", pair.flow->from,
                                      pair.flow->to, format_number(pair.flow->gbit_per_s, 2),
                                      100 * pair.share));
  }
  return plots::drawn(std::move(chart), canvas, form, y);
}

}  // namespace lockstep::links
