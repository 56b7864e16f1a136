#include "lockstep/measure/distributions.h"

#include <cmath>

// The only file that includes Boost: these headers take longer to read than the rest of the part.
#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <boost/math/policies/policy.hpp>

namespace lockstep::measure {
namespace {

namespace policies = boost::math::policies;

/// Computes in double, which halves Boost's tables, and answers 0 and 1 with infinities instead of
/// exceptions: a probability rounds to 1 where an interval is asked for with a confidence close to it.
using Quiet =
    policies::policy<policies::promote_double<false>, policies::domain_error<policies::ignore_error>,
                     policies::overflow_error<policies::ignore_error>,
                     policies::evaluation_error<policies::ignore_error>>;
using Binomial = boost::math::binomial_distribution<double, Quiet>;
using Normal = boost::math::normal_distribution<double, Quiet>;
using StudentT = boost::math::students_t_distribution<double, Quiet>;

}  // namespace

double normal_quantile(double probability) {
  return boost::math::quantile(Normal(), probability);
}

double student_t_quantile(double probability, double degrees) {
  return boost::math::quantile(StudentT(degrees), probability);
}

double student_t_two_sided_p(double t, double degrees) {
  // Twice the lower tail: 1 minus the upper one would lose the digits of a small p.
  return 2 * boost::math::cdf(StudentT(degrees), -std::abs(t));
}

double binomial_upper_tail(int count, int trials, double probability) {
  return boost::math::cdf(boost::math::complement(Binomial(trials, probability), count - 1));
}

}  // namespace lockstep::measure
