#pragma once

namespace lockstep::measure {

/// P(X <= x) of the standard normal distribution.
double normal_cdf(double x);

/// The x with normal_cdf(x) == probability; probability in (0, 1), relative error below 1e-9.
double normal_quantile(double probability);

/// P(T <= t) of Student's t distribution; `degrees` of freedom > 0, a fraction is allowed.
double student_t_cdf(double t, double degrees);

/// The t with student_t_cdf(t, degrees) == probability; probability in (0, 1), relative error below 1e-8.
double student_t_quantile(double probability, double degrees);

/// P(|T| >= |t|): the two-sided p-value of a t statistic.
double student_t_two_sided_p(double t, double degrees);

}  // namespace lockstep::measure
