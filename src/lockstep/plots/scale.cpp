#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/plots/frame.h"
#include "lockstep/plots/text.h"

namespace lockstep::plots {
namespace {

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

}  // namespace

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

}  // namespace lockstep::plots
