#include "lockstep/plots/legend.h"

#include <algorithm>

namespace lockstep::plots {
namespace {

constexpr double kSample = 26;
constexpr double kSampleGap = 7;
constexpr double kEntryGap = 18;
constexpr double kRow = 20;

struct Placed {
  double x = 0;
  double y = 0;
  std::string label;
};

std::vector<Placed> flow(const std::vector<LegendEntry>& entries, double width) {
  std::vector<Placed> placed;
  double x = 0, y = 0;
  for (const LegendEntry& entry : entries) {
    const std::string label = fit_text(entry.label, width - kSample - kSampleGap);
    const double needed = kSample + kSampleGap + text_width(label);
    if (x > 0 && x + needed > width) x = 0, y += kRow;
    placed.push_back({x, y, label});
    x += needed + kEntryGap;
  }
  return placed;
}

void draw_sample(Canvas& canvas, Point at, const LegendEntry& entry) {
  using Sample = LegendEntry::Sample;
  const double middle = at.y + kRow / 2 - 1;
  const Box box{at.x + 4, middle - 6, kSample - 8, 12};
  switch (entry.sample) {
    case Sample::kLine:
      canvas.polyline({{at.x, middle}, {at.x + kSample, middle}}, entry.style);
      canvas.marker({at.x + kSample / 2, middle}, entry.style);
      return;
    case Sample::kBand:
      canvas.rect(box, entry.style.colour, 0.25);
      return;
    case Sample::kSwatch:
      canvas.rect(box, entry.style.colour, 1, 2);
      return;
    case Sample::kRising:
    case Sample::kFalling:
      canvas.rect(box, entry.style.colour, 1, 2);
      canvas.hatch(box, entry.sample == Sample::kRising);
  }
}

}  // namespace

double legend_height(const std::vector<LegendEntry>& entries, double width) {
  if (entries.empty()) return 0;
  return flow(entries, width).back().y + kRow;
}

void draw_legend(Canvas& canvas, Point corner, double width, const std::vector<LegendEntry>& entries) {
  const std::vector<Placed> placed = flow(entries, width);
  for (size_t i = 0; i < entries.size(); ++i) {
    const Point at{corner.x + placed[i].x, corner.y + placed[i].y};
    draw_sample(canvas, at, entries[i]);
    canvas.text({at.x + kSample + kSampleGap, at.y + kRow / 2 + 3.5}, placed[i].label,
                {.tooltip = entries[i].label});
  }
}

}  // namespace lockstep::plots
