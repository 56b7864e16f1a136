#include "lockstep/links/host_drawing.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include <fmt/format.h>

#include "lockstep/base/units.h"

namespace lockstep::links {
namespace {

using plots::Box;
using plots::Colour;
using plots::Point;
using topology::Device;
using topology::DeviceKind;
using topology::PathKind;

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

}  // namespace

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

}  // namespace lockstep::links
