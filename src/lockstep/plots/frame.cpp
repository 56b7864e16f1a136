#include "lockstep/plots/frame.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/units.h"
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

/// A label with as many decimals as steps of `step` need.
std::string tick_label(double value, double step) {
  if (std::abs(value) >= 1e7 || (value != 0 && step < 1e-6)) return number_text(value);
  const int decimals = std::clamp(static_cast<int>(std::ceil(-std::log10(step) - 1e-9)), 0, 6);
  return grouped_text(value, decimals);
}

/// The smallest of 1, 2, 2.5 and 5 times a power of ten that gives at most `ticks` ticks.
double nice_step(double span, int ticks) {
  const double raw = span / std::max(1, ticks - 1);
  const double power = std::pow(10, std::floor(std::log10(raw)));
  // A hair of tolerance: a quotient that should be 1 may be a little above it.
  for (double factor : {1.0, 2.0, 2.5, 5.0, 10.0}) {
    if (raw <= factor * power * (1 + 1e-9)) return factor * power;
  }
  return 10 * power;
}

/// "1", "2", "10,000", "0.25".
std::string plain_label(double value) {
  return value >= 1 && value == std::floor(value) ? grouped_text(value, 0) : fmt::format("{:g}", value);
}

constexpr const char* kFonts =
    "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue','Liberation Sans',Arial,sans-serif";
constexpr double kMargin = 16;

/// Title and description, which screen readers read instead of the marks.
std::string accessible_text(const Chart& chart, const ChartForm& form) {
  return fmt::format("<title id=\"{0}-t\">{1}</title>\n<desc id=\"{0}-d\">{2}</desc>\n", form.id,
                     escape(chart.title), escape(chart.description));
}

/// The <svg> element. Its viewBox scales; `more` may set a size, which a file needs and a page does not.
std::string opening(const ChartForm& form, double width, double height, std::string_view more) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" role=\"img\" "
      "aria-labelledby=\"{2}-t {2}-d\" "
      "font-family=\"{3}\" font-size=\"{4}\"{5}>\n",
      coordinate(width), coordinate(height), form.id, kFonts, coordinate(kTextSize), more);
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

Scale Scale::linear(double low, double high, int ticks) {
  if (!std::isfinite(low) || !std::isfinite(high)) low = 0, high = 1;
  if (low > high) std::swap(low, high);
  // A range of one value: a tenth of it on both sides.
  if (high - low < 1e-12 * std::max(std::abs(high), 1e-12)) {
    const double pad = std::max(std::abs(high) * 0.1, 1e-9);
    high += pad;
    low = low == 0 ? 0 : low - pad;
  }
  const double step = nice_step(high - low, ticks);
  const double first = std::floor(low / step + 1e-9), last = std::ceil(high / step - 1e-9);
  Scale scale(first * step, last * step, false);
  for (double at = first; at <= last; ++at) {
    // Multiples of 2.5 need one decimal more than their power of ten.
    const bool quarter = std::abs(step / std::pow(10, std::floor(std::log10(step) + 1e-9)) - 2.5) < 1e-6;
    scale.ticks_.push_back({at * step, tick_label(at * step, quarter ? step / 10 : step)});
  }
  return scale;
}

Scale Scale::linear_exactly(double low, double high, int ticks) {
  Scale scale = linear(low, high, ticks);
  if (!(low < high) || !std::isfinite(high - low)) return scale;
  scale.low_ = low;
  scale.high_ = high;
  std::erase_if(scale.ticks_, [&](const Tick& tick) { return tick.value < low || tick.value > high; });
  return scale;
}

Scale Scale::log2(double low, double high) {
  if (!(low > 0) || !std::isfinite(high)) low = 1, high = 2;
  double first = std::floor(std::log2(low) + 1e-9), last = std::ceil(std::log2(std::max(high, low)) - 1e-9);
  if (first == last) ++last;
  // If `low` is just below a power of two, the octave below it would be mostly empty.
  const bool most_of_octave_free = low > 1.5 * std::exp2(first) && last > first + 1;
  Scale scale(most_of_octave_free ? low / 1.1 : std::exp2(first), std::exp2(last), true);
  if (most_of_octave_free) ++first;
  for (double at = first; at <= last; ++at)
    scale.ticks_.push_back({std::exp2(at), plain_label(std::exp2(at))});
  return scale;
}

Scale Scale::log10(double low, double high) {
  if (!(low > 0) || !std::isfinite(high)) low = 1, high = 10;
  high = std::max(high, low);
  std::vector<double> factors{1, 2, 5};
  if (std::log10(high / low) > 3.5) factors = {1};
  std::vector<double> values;
  for (double power = std::floor(std::log10(low)); power <= std::ceil(std::log10(high)) + 1; ++power) {
    for (double factor : factors) values.push_back(factor * std::pow(10, power));
  }
  auto first = std::upper_bound(values.begin(), values.end(), low * (1 + 1e-9));
  if (first != values.begin()) --first;
  auto last = std::lower_bound(first, values.end(), high * (1 - 1e-9));
  if (last == first) ++last;
  Scale scale(*first, *last, true);
  for (auto at = first; at <= last; ++at) scale.ticks_.push_back({*at, plain_label(*at)});
  return scale;
}

Scale Scale::bytes(double low, double high) {
  if (!(low > 0) || !std::isfinite(high)) low = 1, high = 2;
  // A single size: an octave on both sides.
  if (!(low < high)) low /= 2, high *= 2;
  Scale scale(low, high, true);
  for (int power = 0; power <= 40; power += 4) {
    if (std::exp2(power) < low || std::exp2(power) > high) continue;
    constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    scale.ticks_.push_back(
        {std::exp2(power), fmt::format("{:.0f} {}", std::exp2(power % 10), kUnits[power / 10])});
  }
  // No power between them.
  if (scale.ticks_.empty()) scale.ticks_.push_back({low, format_bytes(std::llround(low))});
  return scale;
}

Scale Scale::log_at(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !(value > 0) || !std::isfinite(value); });
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  if (values.empty()) values = {1};
  const bool one = values.size() == 1;
  Scale scale(one ? values[0] / 1.5 : values.front(), one ? values[0] * 1.5 : values.back(), true);
  for (double value : values) scale.ticks_.push_back({value, plain_label(value)});
  return scale;
}

double Scale::operator()(double value) const {
  const auto share = [&](double v) {
    return logarithmic_ ? std::log(v / low_) / std::log(high_ / low_) : (v - low_) / (high_ - low_);
  };
  // 0 and below have no logarithm: they stand at the lower end.
  if (logarithmic_ && !(value > 0)) value = low_;
  const double at = share(std::clamp(value, low_, high_));
  return from_ + (std::isfinite(at) ? at : 0) * (to_ - from_);
}

std::vector<Tick> Scale::spaced_ticks(double gap, bool horizontal) const {
  const auto extent = [&](const Tick& tick) {
    return horizontal ? text_width(tick.label) / 2 : kTextSize / 2;
  };
  const auto apart = [&](const Tick& a, const Tick& b) {
    return std::abs((*this)(a.value) - (*this)(b.value)) >= extent(a) + extent(b) + gap;
  };
  // The ends keep their labels first, then powers of two: 1, 2, 4, 8 rather than 1, 3, 7.
  const auto rank = [&](const Tick& tick) {
    if (&tick == &ticks_.front() || &tick == &ticks_.back()) return 0;
    if (!logarithmic_) return 1;
    const double exponent = std::log2(tick.value);
    return exponent == std::floor(exponent) ? 1 : 2;
  };
  std::vector<size_t> order(ticks_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, {}, [&](size_t i) { return rank(ticks_[i]); });
  std::vector<bool> shown(ticks_.size(), false);
  for (size_t i : order) {
    bool fits = true;
    for (size_t j = 0; j < ticks_.size() && fits; ++j) fits = !shown[j] || apart(ticks_[i], ticks_[j]);
    shown[i] = fits;
  }
  std::vector<Tick> result = ticks_;
  for (size_t i = 0; i < result.size(); ++i) {
    if (!shown[i]) result[i].label.clear();
  }
  return result;
}

Chart missing_chart(std::string title, std::string reason, std::string advice) {
  return {.title = std::move(title), .missing = std::move(reason), .advice = std::move(advice)};
}

Chart drawn(Chart chart, const Canvas& canvas, const ChartForm& form, double height) {
  chart.markup = canvas.markup();
  chart.width = form.width;
  chart.height = height;
  return chart;
}

const Registry<DrawChart>& charts() {
  static const Registry<DrawChart> all("chart", "lockstep plot --help",
                                       {{"speedup", &speedup_chart},
                                        {"throughput", &throughput_chart},
                                        {"setting", &setting_chart},
                                        {"phases", &phases_chart},
                                        {"distribution", &distribution_chart},
                                        {"series", &series_chart},
                                        {"buckets", &buckets_chart},
                                        {"memory", &memory_chart},
                                        {"loss", &loss_chart},
                                        {"accuracy", &accuracy_chart}});
  return all;
}

std::string inline_svg(const Chart& chart, const ChartForm& form) {
  return opening(form, chart.width, chart.height, "") + accessible_text(chart, form) + chart.markup +
         "</svg>\n";
}

std::string standalone_svg(const Chart& chart, const ChartForm& form) {
  const double width = chart.width + 2 * kMargin;
  // Three canvases, since the ground must be as high as all of it and lie below it.
  Canvas above(form.id + "-above"), below(form.id + "-below");
  double top = kMargin;
  top += 8 + above.paragraph({kMargin + 4, top + 14}, chart.title, chart.width,
                             {.size = kHeadingSize, .bold = true});
  double bottom = top + chart.height + 4;
  for (const std::string& note : chart.notes) {
    bottom += below.paragraph({kMargin + 4, bottom + 12}, note, chart.width - 8,
                              {.colour = Colour::kMuted, .size = kSmallTextSize});
  }
  const double height = bottom + kMargin;
  Canvas background(form.id + "-ground");
  background.rect({0, 0, width, height}, Colour::kSurface);
  const std::string size = fmt::format(" width=\"{}\" height=\"{}\"", coordinate(width), coordinate(height));
  return opening(form, width, height, size) + accessible_text(chart, form) +
         fmt::format("<style>{}</style>\n", dark_mode_css()) + background.markup() + above.markup() +
         fmt::format("<g transform=\"translate({} {})\">\n{}</g>\n", coordinate(kMargin), coordinate(top),
                     chart.markup) +
         below.markup() + "</svg>\n";
}

}  // namespace lockstep::plots
