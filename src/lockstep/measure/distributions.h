#pragma once

namespace lockstep::measure {

// Quantiles and tails of the distributions that intervals and tests rest on, from Boost.Math.

/// The x below which a standard normal value lies with `probability`; infinite for 0 and 1.
double normal_quantile(double probability);

/// The t below which a value of Student's t distribution lies with `probability`; infinite for 0 and 1.
/// `degrees` of freedom > 0, a fraction is allowed.
double student_t_quantile(double probability, double degrees);

/// P(|T| >= |t|): the two-sided p-value of a t statistic.
double student_t_two_sided_p(double t, double degrees);

/// The probability of `count` > 0 successes or more in `trials` of which each has `probability`, from 0 to 1.
double binomial_upper_tail(int count, int trials, double probability);

}  // namespace lockstep::measure
