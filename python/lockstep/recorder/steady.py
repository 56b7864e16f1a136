"""The end of warm-up."""

from math import log, sqrt

LEAST_WARM_UP = 3
LEAST_REST = 16
CLAMP = 4.0
BEYOND_CHANCE = 3.5
SAME_LEVEL = 5


def is_steady(durations):
    """Whether warm-up is over, by the rule of lockstep's own runs (src/lockstep/measure/stopping.cpp), but with one
    comparison in place of what that does about slow decays, trends and level shifts. In O(n log n)."""
    count = len(durations)
    latest = _latest_cut(count)
    if latest < LEAST_WARM_UP:
        return False
    cut = _end_of_warm_up(durations)
    third = (count - cut) // 3
    values = _scaled(durations)
    return cut < latest and abs(_standardized_difference(values[cut : cut + third], values[-third:])) < SAME_LEVEL


def _latest_cut(count):
    return count - max(LEAST_REST, (count + 1) // 2)


def _end_of_warm_up(durations):
    """The first steps that are slower than those after."""
    bound = _latest_cut(len(durations))
    values = _scaled(durations)
    while bound > LEAST_WARM_UP:
        cut = _smallest_error_cut(values, bound)
        if cut == LEAST_WARM_UP:
            break
        off = _standardized_difference(values[LEAST_WARM_UP:cut], values[cut:])
        if off > BEYOND_CHANCE:
            return cut
        if off < -BEYOND_CHANCE:
            # Warm-up is that of the steps before it slowed down.
            return _end_of_warm_up(durations[:cut])
        bound = cut - 1
    return LEAST_WARM_UP


def _scaled(durations):
    values = [log(max(time, 1e-9)) for time in durations]
    half = values[len(values) // 2 :]
    center = _median(half)
    distances = [abs(value - center) for value in half]
    width = max(1.4826 * _median(distances) or 1.2533 * sum(distances) / len(distances), 1e-3)
    return [min(max((value - center) / width, -CLAMP), CLAMP) for value in values]


def _median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _smallest_error_cut(values, latest):
    """The cut that minimizes the marginal error of the rest, the earliest of equals."""
    total = squares = 0.0
    best = None
    for cut in range(len(values) - 1, LEAST_WARM_UP - 1, -1):
        total += values[cut]
        squares += values[cut] ** 2
        if cut <= latest:
            length = len(values) - cut
            error = (squares - total * total / length) / length**3
            if best is None or error <= best[0]:
                best = error, cut
    return best[1]


def _standardized_difference(head, rest):
    """Difference of the means in standard errors, which are those of the rest and allow for its correlation."""
    mean = sum(rest) / len(rest)
    squares = sum((value - mean) ** 2 for value in rest)
    products = sum((a - mean) * (b - mean) for a, b in zip(rest, rest[1:]))
    lag_one = (len(rest) * products / squares + 1) / (len(rest) - 3) if squares > 1e-12 else 0.0
    lag_one = min(max(lag_one, 0.0), 0.98)
    variance = max(squares / len(rest), 0.25) * (_variance_of_mean(len(head), lag_one) + _variance_of_mean(len(rest), lag_one))
    return (sum(head) / len(head) - mean) / sqrt(variance)


def _variance_of_mean(count, lag_one):
    """Of `count` neighbors of a first-order autoregression with variance 1."""
    terms = (2 * lag_one**lag * (1 - lag / count) for lag in range(1, min(count, 300)))
    return (1 + sum(terms)) / count
