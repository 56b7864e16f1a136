#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/json_codec.h"
#include "lockstep/base/units.h"
#include "lockstep/links/report.h"
#include "lockstep/plots/frame.h"
#include "lockstep/topology/system.h"

namespace lockstep::links {
namespace {

using plots::Box;
using plots::Canvas;
using plots::Colour;
using plots::Point;
using topology::Device;
using topology::DeviceKind;
using topology::PathKind;
using topology::System;

/// Room around everything, and the height of a rank.
inline constexpr double kPad = 8;

inline constexpr double kRankStep = 20;

/// A class of links, and its color.
struct Shade {
  plots::Colour colour;
  std::string label;
};

/// The sockets of a host, and its GPUs and network devices below them.
class HostDrawing {
 public:
  /// `shades` gains the kinds of links between GPUs that are drawn and that it lacks.
  HostDrawing(plots::Canvas& canvas, const topology::System& system, double width, std::vector<Shade>& shades)
      : canvas_(canvas), system_(system), width_(width), shades_(shades) {}

  /// From `top` on, with room for `ranks`; returns the lower edge. `brief`: only the title.
  double draw(double top, const std::string& title, bool brief, size_t ranks);

 private:
  double socket_width() const;
  /// The middle of the socket that a device is near to; of all sockets where it is near to none.
  double socket_x(const topology::Device& device) const;
  void draw_sockets(double y);
  /// Devices in the order of their sockets, GPUs first, and the arcs between GPUs below them.
  void draw_chips(double y);
  /// `x`: of each device.
  void draw_gpu_arcs(double y, const std::vector<double>& x);

  plots::Canvas& canvas_;
  const topology::System& system_;
  double width_;
  std::vector<Shade>& shades_;
};

constexpr double kTitle = 22;
constexpr double kSocket = 40;
constexpr double kChip = 22;
/// Room for the lines between sockets and devices.
constexpr double kWires = 14;
/// Room below GPUs for the arcs between them.
constexpr double kGpuArcs = 34;

Shade shade_of(PathKind kind) {
  switch (kind) {
    case PathKind::kNvlink:
      return {Colour::kGreen, "NVLink"};
    case PathKind::kSwitch:
    case PathKind::kSwitches:
      return {Colour::kBlue, "PCIe switches"};
    case PathKind::kHostBridge:
      return {Colour::kSky, "a PCIe host bridge"};
    default:
      return {Colour::kGrey, "processors"};
  }
}

/// Whether a list as "0-15,32-47" holds the first number of another one.
bool holds_first_of(const std::string& list, const std::string& other) {
  const int wanted = std::atoi(other.c_str());
  for (size_t at = 0; at < list.size() && !other.empty();) {
    const size_t end = std::min(list.find(',', at), list.size());
    const std::string part = list.substr(at, end - at);
    const size_t dash = part.find('-');
    const int first = std::atoi(part.c_str());
    const int last = dash == std::string::npos ? first : std::atoi(part.c_str() + dash + 1);
    if (first <= wanted && wanted <= last) return true;
    at = end + 1;
  }
  return false;
}

/// Half an ellipse between two ends, which are below one another or side by side.
std::vector<Point> arc(Point from, Point to, double depth) {
  constexpr int kSteps = 16;
  const bool sideways = from.x == to.x;
  std::vector<Point> points;
  for (int i = 0; i <= kSteps; ++i) {
    const double angle = std::numbers::pi * i / kSteps;
    const double along = (1 - std::cos(angle)) / 2, out = depth * std::sin(angle);
    points.push_back({from.x + along * (to.x - from.x) + (sideways ? out : 0),
                      from.y + along * (to.y - from.y) + (sideways ? 0 : out)});
  }
  return points;
}

double HostDrawing::draw(double top, const std::string& title, bool brief, size_t ranks) {
  const bool has_sockets = !brief && !system_.packages.empty();
  const bool has_chips = !brief && !system_.map.devices.empty();
  const double sockets = has_sockets ? kSocket : 0;
  const double chips = has_chips ? kWires + kChip + (system_.map.gpus() > 1 ? kGpuArcs : 0) : 0;
  const double height =
      std::max(kTitle + sockets + chips + kPad, static_cast<double>(ranks) * kRankStep + kPad);
  canvas_.rect({0, top, width_, height}, Colour::kShade, 1, 4);
  canvas_.text({kPad, top + 16}, plots::clip(title, size_t((width_ - kTitle) / 8)), {.bold = true});
  if (has_sockets) draw_sockets(top + kTitle);
  if (has_chips) draw_chips(top + kTitle + sockets + kWires);
  return top + height;
}

double HostDrawing::socket_width() const {
  return (width_ - kPad) / static_cast<double>(std::max<size_t>(1, system_.packages.size()));
}

double HostDrawing::socket_x(const Device& device) const {
  for (size_t i = 0; i < system_.packages.size(); ++i) {
    if (holds_first_of(system_.packages[i].cpus, device.cpu_affinity))
      return kPad + (static_cast<double>(i) + 0.5) * socket_width() - kPad / 2;
  }
  return width_ / 2;
}

void HostDrawing::draw_sockets(double y) {
  const double width = socket_width();
  for (size_t i = 0; i < system_.packages.size(); ++i) {
    const topology::Package& package = system_.packages[i];
    const Box box{kPad + static_cast<double>(i) * width, y, width - kPad, kSocket};
    if (i > 0) canvas_.line({box.x - kPad, y + kSocket / 2}, {box.x, y + kSocket / 2}, Colour::kAxis, 3);
    canvas_.rect(box, Colour::kSurface, 1, 3, package.processor);
    const auto letters = static_cast<size_t>((box.width - kPad) / 7);
    canvas_.text({box.x + 6, y + 16},
                 plots::clip(fmt::format("socket {}: {}", i, counted(package.cores, "core")), letters),
                 {.size = plots::kSmallTextSize});
    canvas_.text({box.x + 6, y + 32}, plots::clip(package.processor, letters),
                 {.colour = Colour::kMuted, .size = plots::kSmallTextSize});
  }
}

void HostDrawing::draw_chips(double y) {
  const std::vector<Device>& devices = system_.map.devices;
  std::vector<size_t> order(devices.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {},
                           [&](size_t i) { return std::pair(socket_x(devices[i]), devices[i].kind); });
  const double step = (width_ - 2 * kPad) / static_cast<double>(devices.size());
  const double width = std::min(70.0, step - 4);
  std::vector<double> x(devices.size());
  for (size_t place = 0; place < order.size(); ++place) {
    const Device& device = devices[order[place]];
    const bool is_gpu = device.kind == DeviceKind::kGpu;
    x[order[place]] = kPad + (static_cast<double>(place) + 0.5) * step;
    const Point top{x[order[place]], y};
    if (!system_.packages.empty()) canvas_.line(top, {socket_x(device), y - kWires}, Colour::kAxis);
    canvas_.rect({top.x - width / 2, y, width, kChip}, is_gpu ? Colour::kBlue : Colour::kGrey, 1, 3,
                 device.name);
    // The number alone where the name does not fit.
    const bool fits = plots::text_width(device.label, plots::kSmallTextSize) < width;
    canvas_.text({top.x, y + 15}, fits ? device.label : std::to_string(order[place]),
                 {.colour = is_gpu ? Colour::kOnBlue : Colour::kOnBright,
                  .anchor = plots::Anchor::kMiddle,
                  .size = plots::kSmallTextSize});
  }
  draw_gpu_arcs(y + kChip, x);
}

void HostDrawing::draw_gpu_arcs(double y, const std::vector<double>& x) {
  // From far to near: the fastest links on top.
  for (const PathKind kind : {PathKind::kSystem, PathKind::kNode, PathKind::kHostBridge, PathKind::kSwitches,
                              PathKind::kSwitch, PathKind::kNvlink}) {
    const Shade shade = shade_of(kind);
    for (size_t one = 0; one < x.size(); ++one) {
      for (size_t other = one + 1; other < x.size(); ++other) {
        const auto is_gpu = [&](size_t i) { return system_.map.devices[i].kind == DeviceKind::kGpu; };
        if (!is_gpu(one) || !is_gpu(other) || system_.map.paths[one][other].kind != kind) continue;
        if (std::ranges::find(shades_, shade.label, &Shade::label) == shades_.end()) shades_.push_back(shade);
        const double depth = kGpuArcs * std::abs(x[other] - x[one]) / width_;
        canvas_.polyline(arc({x[one], y}, {x[other], y}, depth), {.colour = shade.colour, .width = 1.5});
      }
    }
  }
}

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
