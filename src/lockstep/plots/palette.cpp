#include <array>

#include <fmt/format.h>

#include "lockstep/plots/canvas.h"

namespace lockstep::plots {
namespace {

/// A colour by its CSS class, on a white page and in dark mode.
struct Entry {
  std::string_view name, light, dark;
};

/// In the order of Colour.
constexpr std::array<Entry, 16> kEntries{{
    {"ink", "#1b1f24", "#e8eaed"},
    {"muted", "#57606a", "#a8b1bb"},
    {"grid", "#e4e7eb", "#2b323a"},
    {"axis", "#8c959f", "#6e7883"},
    {"surface", "#ffffff", "#161a20"},
    {"shade", "#f0f2f5", "#222931"},
    {"blue", "#0072b2", "#3f9bdc"},
    {"vermillion", "#d55e00", "#ec7a34"},
    {"green", "#009e73", "#22b98d"},
    {"purple", "#cc79a7", "#d98fb8"},
    {"orange", "#e69f00", "#ebae2b"},
    {"sky", "#56b4e9", "#7cc6ef"},
    {"grey", "#a9b1ba", "#7d8792"},
    {"onblue", "#ffffff", "#0d1014"},
    {"onbright", "#0d1014", "#0d1014"},
    {"none", "none", "none"},
}};

/// The table has an entry for each Colour, "none" included.
const Entry& entry_of(Colour colour) {
  return kEntries[static_cast<size_t>(colour)];
}

/// Seven hues and seven markers in step: either one distinguishes curves.
constexpr std::array<Colour, kHueCount> kHues{Colour::kBlue,   Colour::kVermillion, Colour::kGreen,
                                              Colour::kPurple, Colour::kOrange,     Colour::kSky,
                                              Colour::kInk};
constexpr std::array kMarkers{Marker::kCircle,       Marker::kSquare, Marker::kTriangle, Marker::kDiamond,
                              Marker::kTriangleDown, Marker::kCross,  Marker::kPlus};
/// Lengths of dashes and gaps; the first is a solid line.
constexpr std::array<std::string_view, 4> kDashes{"", "7 4", "2.5 3.5", "9 3 2.5 3"};

}  // namespace

std::string paint(Colour fill, Colour stroke) {
  std::string classes;
  std::string text;
  if (fill == Colour::kNone) {
    text += " fill=\"none\"";
  } else {
    text += fmt::format(" fill=\"{}\"", entry_of(fill).light);
    classes = fmt::format("f-{}", entry_of(fill).name);
  }
  if (stroke != Colour::kNone) {
    text += fmt::format(" stroke=\"{}\"", entry_of(stroke).light);
    classes += fmt::format("{}s-{}", classes.empty() ? "" : " ", entry_of(stroke).name);
  }
  if (!classes.empty()) text += fmt::format(" class=\"{}\"", classes);
  return text;
}

std::string dark_mode_css() {
  std::string rules;
  for (const Entry& entry : kEntries) {
    // The attributes hold the light colour already.
    if (entry.light == entry.dark) continue;
    rules += fmt::format(".f-{0}{{fill:{1}}}.s-{0}{{stroke:{1}}}", entry.name, entry.dark);
  }
  return fmt::format("@media screen and (prefers-color-scheme:dark){{{}}}", rules);
}

LineStyle line_style(size_t hue, size_t marker, size_t dash) {
  return {.colour = kHues[hue % kHues.size()],
          .marker = kMarkers[marker % kMarkers.size()],
          .dash = std::string(kDashes[dash % kDashes.size()])};
}

}  // namespace lockstep::plots
