#pragma once

#include <string>
#include <vector>

#include "lockstep/plots/canvas.h"
#include "lockstep/topology/system.h"

namespace lockstep::links {

/// Room around everything, and the height of a rank.
inline constexpr double kPad = 8;
inline constexpr double kRankStep = 20;

/// A class of links, and its color.
struct Shade {
  plots::Colour colour;
  std::string label;
};

/// Half an ellipse between two ends, which are below one another or side by side.
std::vector<plots::Point> arc(plots::Point from, plots::Point to, double depth);

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

}  // namespace lockstep::links
