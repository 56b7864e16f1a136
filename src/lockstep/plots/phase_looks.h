#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "lockstep/plots/frame.h"
#include "lockstep/results/record/breakdown.h"

namespace lockstep::plots {

/// A phase of a step, and its look in every chart.
struct PhaseLook {
  std::string_view name;
  double results::PhaseTimes::*seconds;
  Colour fill;
  LegendEntry::Sample sample;
  /// Colour of text on the fill.
  Colour text;
};

/// In the order of a step.
const std::array<PhaseLook, 7>& phase_looks();

/// Phases that take any time in one of `means`.
std::vector<const PhaseLook*> phases_in(const std::vector<const results::PhaseTimes*>& means);

LegendEntry legend_entry(const PhaseLook& look);

/// A box of a phase: filled, and hatched where it is communication.
void draw_phase(Canvas& canvas, const Box& box, const PhaseLook& look, std::string_view tooltip);

}  // namespace lockstep::plots
