#pragma once

#include <vector>

#include "lockstep/plots/curves.h"
#include "lockstep/plots/frame.h"

namespace lockstep::plots {

/// A look for each curve: own ones solid with filled markers, controls and published ones behind them.
std::vector<LineStyle> styles_of(const std::vector<Curve>& curves);

/// The legend of curves.
std::vector<LegendEntry> legend_of(const std::vector<Curve>& curves);

/// Every number of workers that occurs.
std::vector<double> workers_of(const std::vector<Curve>& curves);

/// Draws the curves: published below, own above; whiskers where there are intervals; each marker tells its
/// numbers in a tooltip, as "8 workers: 412 images/s (405 to 420)".
void draw_curves(Canvas& canvas, const XyFrame& frame, const std::vector<Curve>& curves,
                 std::string_view unit);

/// Says in `notes` which curves cannot be seen because another that draw_curves draws later has the same
/// points.
void note_hidden(const std::vector<Curve>& curves, std::vector<std::string>& notes);

/// The last point of each curve in words, for a description.
std::string curves_in_words(const std::vector<Curve>& curves, std::string_view unit);

}  // namespace lockstep::plots
