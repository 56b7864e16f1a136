#include "lockstep/measure/distributions.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace lockstep::measure {
namespace {

/// The continued fraction of the incomplete beta function, by Lentz's method (Press et al. 2007, 6.4).
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  double c = 1.0;
  double d = 1.0 - (a + b) * x / (a + 1.0);
  d = 1.0 / (std::abs(d) < kTiny ? kTiny : d);
  double value = d;
  const auto next = [&](double numerator) {
    d = 1.0 + numerator * d;
    c = 1.0 + numerator / c;
    d = 1.0 / (std::abs(d) < kTiny ? kTiny : d);
    if (std::abs(c) < kTiny) c = kTiny;
    value *= d * c;
    return std::abs(d * c - 1.0);
  };
  for (int m = 1; m < 2000; ++m) {
    next(m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)));
    if (next(-(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))) < 1e-15) break;
  }
  return value;
}

double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x));
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

/// Finds the root of a rising cdf for probability >= 1/2, where the answer is not negative.
template <typename Cdf>
double invert(const Cdf& cdf, double probability) {
  double low = 0;
  double high = 1;
  while (cdf(high) < probability && high < 1e150) {
    low = high;
    high *= 2;
  }
  for (int i = 0; i < 200 && high - low > 1e-13 * high; ++i) {
    const double middle = 0.5 * (low + high);
    (cdf(middle) < probability ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

}  // namespace

double normal_cdf(double x) {
  return 0.5 * std::erfc(-x / std::numbers::sqrt2);
}

double normal_quantile(double probability) {
  if (probability <= 0) return -std::numeric_limits<double>::infinity();
  if (probability >= 1) return std::numeric_limits<double>::infinity();
  if (probability > 0.5) return -normal_quantile(1 - probability);
  // A rational start (Abramowitz and Stegun 1964, 26.2.23), then Newton steps with Halley's correction.
  const double t = std::sqrt(-2 * std::log(probability));
  double x = -(t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                       (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))));
  for (int i = 0; i < 2; ++i) {
    const double density = std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
    const double step = (normal_cdf(x) - probability) / density;
    x -= step / (1 + 0.5 * x * step);
  }
  return x;
}

double student_t_two_sided_p(double t, double degrees) {
  if (std::isinf(t)) return 0;
  return incomplete_beta(0.5 * degrees, 0.5, degrees / (degrees + t * t));
}

double student_t_cdf(double t, double degrees) {
  const double tail = 0.5 * student_t_two_sided_p(t, degrees);
  return t > 0 ? 1 - tail : tail;
}

double student_t_quantile(double probability, double degrees) {
  if (probability < 0.5) return -student_t_quantile(1 - probability, degrees);
  return invert([&](double t) { return student_t_cdf(t, degrees); }, probability);
}

}  // namespace lockstep::measure
