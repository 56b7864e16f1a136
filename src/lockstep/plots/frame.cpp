#include "lockstep/plots/frame.h"

#include <algorithm>
#include <string>
#include <utility>

#include "lockstep/plots/text.h"

namespace lockstep::plots {
namespace {

constexpr double kSample = 26;
constexpr double kSampleGap = 7;
constexpr double kEntryGap = 18;
constexpr double kRow = 20;

/// The sample of an entry: a line with its marker, or a box.
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
      if (!entry.style.dash.empty())
        canvas.polyline({{at.x + 4, middle}, {at.x + kSample - 4, middle}}, entry.style);
      return;
    case Sample::kSwatch:
    case Sample::kRising:
    case Sample::kFalling:
      canvas.rect(box, entry.style.colour, 1, 2);
  }
  if (entry.sample != Sample::kSwatch) canvas.hatch(box, entry.sample == Sample::kRising);
}

constexpr double kTickLength = 5;
constexpr double kEdge = 4;

/// Draws the entries from the left edge at `top` on; one that does not fit begins the next row, and one wider
/// than the form has several lines. Returns the height.
double draw_legend(Canvas& canvas, const ChartForm& form, double top,
                   const std::vector<LegendEntry>& entries) {
  const double width = form.width - 2 * kEdge, room = width - kSample - kSampleGap;
  double x = 0, y = 0, height = 0;
  for (const LegendEntry& entry : entries) {
    const double needed = std::min(room, text_width(entry.label));
    if (x > 0 && x + needed > room) {
      x = 0;
      y += std::exchange(height, 0);
    }
    const Point at{kEdge + x, top + y};
    draw_sample(canvas, at, entry);
    const double lines =
        canvas.paragraph({at.x + kSample + kSampleGap, at.y + kRow / 2 + 3.5}, entry.label, room);
    height = std::max({height, kRow, lines});
    x += kSample + kSampleGap + needed + kEntryGap;
  }
  return y + height;
}

/// Room that the labels of a y axis need.
double widest_label(const std::vector<Tick>& ticks) {
  double widest = 0;
  for (const Tick& tick : ticks) widest = std::max(widest, text_width(tick.label));
  return widest;
}

/// Draws an x axis with ticks, labels and title. Returns the lower edge.
double draw_x_axis(Canvas& canvas, const Scale& x, const Box& plot, const std::string& title) {
  const double y = plot.bottom();
  canvas.line({plot.x, y}, {plot.right(), y}, Colour::kAxis);
  for (const Tick& tick : x.spaced_ticks(10, true)) {
    const double at = x(tick.value);
    canvas.line({at, y}, {at, y + (tick.label.empty() ? kTickLength - 2 : kTickLength)}, Colour::kAxis);
    canvas.text({at, y + kTickLength + 14}, tick.label,
                {.colour = Colour::kMuted, .anchor = Anchor::kMiddle});
  }
  if (title.empty()) return y + kTickLength + 14 + 8;
  const double title_y = y + kTickLength + 14;
  return title_y + 8 +
         canvas.paragraph({(plot.x + plot.right()) / 2, title_y + kLineHeight}, title, plot.width,
                          {.colour = Colour::kMuted, .anchor = Anchor::kMiddle});
}

/// Labels are centered on their ticks, so that half of an outer one needs room beyond the axis.
double half_width(const Tick& tick) {
  return text_width(tick.label) / 2;
}

}  // namespace

XyFrame::XyFrame(Canvas& canvas, const ChartForm& form, const Layout& layout, Scale x, Scale y)
    : x_(std::move(x)), y_(std::move(y)) {
  double top = layout.top + draw_legend(canvas, form, layout.top, layout.legend);
  if (!layout.legend.empty()) top += 8;
  if (!layout.y_title.empty()) {
    top += 7 + canvas.paragraph({kEdge, top + 13}, layout.y_title, form.width - 2 * kEdge,
                                {.colour = Colour::kMuted});
  } else {
    top += 8;
  }

  const double left = kEdge + widest_label(y_.ticks()) + kTickLength + 5;
  // Room for the half of the last label that stands out.
  const double right = std::max(10.0, half_width(x_.ticks().back()) + 2);
  plot_ = {left, top, form.width - left - right, layout.plot_height};
  x_.place(plot_.x + layout.x_margin, plot_.right() - layout.x_margin);
  y_.place(plot_.bottom(), plot_.y);

  if (layout.vertical_grid) {
    for (const Tick& tick : x_.ticks()) {
      canvas.line({x_(tick.value), plot_.y}, {x_(tick.value), plot_.bottom()}, Colour::kGrid);
    }
  }
  for (const Tick& tick : y_.spaced_ticks(6, false)) {
    const double at = y_(tick.value);
    canvas.line({plot_.x, at}, {plot_.right(), at}, Colour::kGrid);
    canvas.text({plot_.x - kTickLength - 3, at + 4.5}, tick.label,
                {.colour = Colour::kMuted, .anchor = Anchor::kEnd});
  }
  bottom_ = draw_x_axis(canvas, x_, plot_, layout.x_title);
}

RowFrame::RowFrame(Canvas& canvas, const ChartForm& form, const Layout& layout, Scale x) : x_(std::move(x)) {
  const double inner = form.width - 2 * kEdge;
  double top = layout.top + draw_legend(canvas, form, layout.top, layout.legend);
  top += layout.legend.empty() ? layout.gap / 2 + 2 : 8;

  double widest = 0;
  for (const Row& row : layout.rows) widest = std::max(widest, text_width(row.label));
  // Labels that would take more than a third of a row go above it.
  const bool above = widest > form.width * 0.34;
  const double left = above ? std::max(kEdge, half_width(x_.ticks().front()) - 6) : kEdge + widest + 10;
  const double right = std::max(layout.right, half_width(x_.ticks().back()) + 2);
  x_.place(above ? left + 8 : left, form.width - right);

  const double first = top;
  std::string group;
  for (const Row& row : layout.rows) {
    if (row.group != group) {
      group = row.group;
      top += 3 + canvas.paragraph({kEdge, top + kLineHeight - 5}, group, inner, {.bold = true});
    }
    if (above) top += canvas.paragraph({kEdge, top + kLineHeight - 5}, row.label, inner);
    boxes_.push_back({x_(x_.low()), top, form.width - right - x_(x_.low()), row.height});
    if (!above) canvas.text({left - 8, top + row.height / 2 + 4.5}, row.label, {.anchor = Anchor::kEnd});
    top += row.height + layout.gap;
  }
  const Box plot{x_(x_.low()), first, form.width - right - x_(x_.low()), top - first};
  // Grid lines are drawn beside rows only, so that they do not cross labels.
  for (const Tick& tick : x_.ticks()) {
    for (const Box& box : boxes_) {
      canvas.line({x_(tick.value), box.y - layout.gap / 2}, {x_(tick.value), box.bottom() + layout.gap / 2},
                  Colour::kGrid);
    }
  }
  bottom_ = draw_x_axis(canvas, x_, plot, layout.x_title);
}

const std::array<PhaseLook, 7>& phase_looks() {
  using Look = LegendEntry::Sample;
  using Times = results::PhaseTimes;
  // Computation is cool and plain, communication warm and hatched, so that losses stand out.
  static const std::array<PhaseLook, 7> kLooks{{
      {"input", &Times::input_s, Colour::kPurple, Look::kSwatch, Colour::kOnBright},
      {"forward", &Times::forward_s, Colour::kSky, Look::kSwatch, Colour::kOnBright},
      {"backward", &Times::backward_s, Colour::kBlue, Look::kSwatch, Colour::kOnBlue},
      {"waiting for others", &Times::waiting_s, Colour::kVermillion, Look::kRising, Colour::kOnBright},
      {"transfer", &Times::transfer_s, Colour::kOrange, Look::kFalling, Colour::kOnBright},
      {"optimizer", &Times::optimizer_s, Colour::kGreen, Look::kSwatch, Colour::kOnBright},
      {"other", &Times::other_s, Colour::kGrey, Look::kSwatch, Colour::kOnBright},
  }};
  return kLooks;
}

std::vector<const PhaseLook*> phases_in(const std::vector<const results::PhaseTimes*>& means) {
  std::vector<const PhaseLook*> found;
  for (const PhaseLook& look : phase_looks()) {
    const auto takes_time = [&](const results::PhaseTimes* mean) { return positive(mean->*look.seconds); };
    if (std::ranges::any_of(means, takes_time)) found.push_back(&look);
  }
  return found;
}

LegendEntry legend_entry(const PhaseLook& look) {
  return {std::string(look.name), {.colour = look.fill}, look.sample};
}

void draw_phase(Canvas& canvas, const Box& box, const PhaseLook& look, std::string_view tooltip) {
  // The hatch lies above and lets the pointer through to the tooltip.
  canvas.rect(box, look.fill, 1, 0, tooltip);
  if (look.sample != LegendEntry::Sample::kSwatch)
    canvas.hatch(box, look.sample == LegendEntry::Sample::kRising);
}

}  // namespace lockstep::plots
