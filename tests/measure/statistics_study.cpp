// Measures how often the intervals of lockstep hold the truth, on synthetic series with known truth, and
// prints the tables of docs/dev/statistics.md. Usage: statistics_study [trials] [seed]. Exit code 1 when a
// figure that is promised leaves its band.

#include <cstdio>
#include <cstdlib>

#include "measure/coverage.h"
#include "measure/turns.h"

namespace {

using namespace lockstep::measure;  // NOLINT(google-build-using-namespace)
using synthetic::CoverageOfBoth;
using synthetic::Series;

bool in_band(const CoverageOfBoth& found) {
  const auto good = [](double percent) { return percent >= 93 && percent <= 97; };
  return good(found.median.percent()) && good(found.mean.percent());
}

const char* marginal(bool log_normal) {
  return log_normal ? "log-normal" : "normal";
}

/// Prints a row; false when it is promised and does not hold.
bool row(const char* name, double lag_one, const CoverageOfBoth& found, bool promised) {
  const bool good = !promised || in_band(found);
  std::printf("| %s | %.2f | %.0f | %.1f (%.0f) | %.1f (%.0f) |%s\n", name, lag_one, found.steps,
              found.median.percent(), found.median.given_percent(), found.mean.percent(),
              found.mean.given_percent(), good ? "" : " <-- out of band");
  return good;
}

void heading(const char* title, const char* name) {
  std::printf("\n%s\n\n| %s | lag-one correlation | steps | median %% (given %%) | mean %% (given %%) |\n",
              title, name);
  std::printf("|---|---|---|---|---|\n");
}

/// Comparisons in turns of at most 64 pairs; false when a promise does not hold.
bool turns_row(const char* name, const synthetic::Machine& machine, int trials, unsigned seed) {
  const synthetic::Rates rates = synthetic::rates_of(machine, seed, trials);
  const bool equal = machine.factor == 1;
  const bool good = rates.held_percent >= 94 && (!equal || rates.differs_percent <= 6);
  std::printf("| %s | %.1f | %.1f | %.1f | %.1f | %.1f |%s\n", name, rates.differs_percent,
              rates.regression_percent, rates.below_percent, rates.held_percent, rates.mean_pairs,
              good ? "" : " <-- out of band");
  return good;
}

bool turns_table(int trials, unsigned seed) {
  std::printf(
      "\nComparisons in turns, at most 64 pairs\n\n| launches | told apart %% | regression %% | below the "
      "threshold %% | interval holds %% | pairs |\n|---|---|---|---|---|---|\n");
  bool good = true;
  good &= turns_row("equal, launches differ by 0.5 %", {.noise = 0.005}, trials, seed);
  good &= turns_row("equal, 1 %", {.noise = 0.01}, trials, seed);
  good &= turns_row("equal, 3 %", {.noise = 0.03}, trials, seed);
  good &= turns_row("equal, 10 %", {.noise = 0.1}, trials, seed);
  good &= turns_row("equal, 1 %, each 0.2 % slower than the one before", {.noise = 0.01, .drift = 0.002},
                    trials, seed);
  good &= turns_row("equal, 1 %, one in 10 takes half as long again", {.noise = 0.01, .outlier_every = 10},
                    trials, seed);
  good &= turns_row("2 % slower, 1 %", {.factor = 1.02, .noise = 0.01}, trials, seed);
  good &= turns_row("5 % slower, 1 %", {.factor = 1.05, .noise = 0.01}, trials, seed);
  good &= turns_row("5 % slower, 3 %", {.factor = 1.05, .noise = 0.03}, trials, seed);
  good &= turns_row("5 % slower, 6 %", {.factor = 1.05, .noise = 0.06}, trials, seed);
  good &= turns_row("5 % slower, 10 %", {.factor = 1.05, .noise = 0.1}, trials, seed);
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  const int trials = argc > 1 ? std::atoi(argv[1]) : 2000;
  const unsigned seed = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 1;
  bool good = true;

  heading("Fixed number of steps", "marginal");
  for (const bool log_normal : {false, true}) {
    for (const double lag_one : {0.0, 0.3, 0.5, 0.7, 0.95}) {
      for (const size_t steps : {20, 50, 100, 200, 500, 1000}) {
        const Series series{steps, lag_one, 0.1, log_normal ? 0.5 : 0.1, log_normal};
        const bool promised = steps >= 200 && lag_one <= 0.7;
        good &= row(marginal(log_normal), lag_one, synthetic::cover(series, trials, seed), promised);
      }
    }
  }

  heading("Stopping rule active (2 %, at most 3,000 steps)", "noise");
  for (const double noise : {0.02, 0.05, 0.1, 0.15}) {
    for (const double lag_one : {0.0, 0.3, 0.5, 0.7, 0.95}) {
      char name[32];
      std::snprintf(name, sizeof name, "%.0f %%", 100 * noise);
      const bool promised = noise >= 0.05 && lag_one <= 0.7;
      good &= row(name, lag_one, synthetic::cover_stopped({3000, lag_one, 0.1, noise, false}, trials, seed),
                  promised);
    }
  }

  heading("Stopping rule active after a decaying warm-up (time constant 8 steps)", "noise");
  for (const double lag_one : {0.0, 0.3, 0.5, 0.7}) {
    row("5 %", lag_one, synthetic::cover_stopped({3000, lag_one, 0.1, 0.05, false}, trials, seed, 8), false);
  }
  good &= turns_table(trials, seed);
  return good ? 0 : 1;
}
