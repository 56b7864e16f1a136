#pragma once

#include <string>
#include <vector>

#include "lockstep/plots/canvas.h"

namespace lockstep::plots {

/// What a legend entry shows before its label.
struct LegendEntry {
  enum class Sample { kLine, kBand, kSwatch, kRising, kFalling };
  std::string label;
  LineStyle style;
  Sample sample = Sample::kLine;
};

/// Height that the entries need when they flow into rows of `width`.
double legend_height(const std::vector<LegendEntry>& entries, double width);

/// Draws them from the top left corner on.
void draw_legend(Canvas& canvas, Point corner, double width, const std::vector<LegendEntry>& entries);

}  // namespace lockstep::plots
