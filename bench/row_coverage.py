#!/usr/bin/env python3
"""How often the intervals of a row hold the truth, through the whole program: `lockstep bench` measures a network whose
steps take as long as they are told (told_network.cpp), with the row's own warm-up and end.

  setup/build.sh release -DLOCKSTEP_BENCHMARKS=ON -- lockstep told_network
  bench/row_coverage.py                              400 rows of each series, about 40 minutes
  bench/row_coverage.py --rows 50 --comparisons 20

Prints Markdown tables; exit code 1 if a promise of docs/dev/statistics.md does not hold: the truth is within 93 to 97 % of
the intervals of settled series, at least 95 % of the rows that --max-time cuts within a decay have no interval, and
at most 6 % of the comparisons of 2 launches with 10 tell equals apart. A share of so many rows is itself known to two
of its standard deviations only, which is allowed for.
"""

import argparse
import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile

# More than a row ever measures.
STEPS = 12000


class Series:
    """Independent normal steps, of which a share takes `outlier` times as long; `decay`: a warm-up's share and its time
    constant in steps."""

    def __init__(self, median_s, noise, outlier_share=0.0, outlier=1.0, decay=None):
        self.median_s, self.noise, self.outlier_share, self.outlier = median_s, noise, outlier_share, outlier
        self.decay = decay

    def draw(self, generator, level=1.0, count=STEPS):
        steps = []
        for index in range(count):
            step_s = self.median_s * level * (1 + self.noise * generator.gauss(0, 1))
            if generator.random() < self.outlier_share:
                step_s *= self.outlier
            if self.decay:
                step_s += self.median_s * self.decay[0] * math.exp(-index / self.decay[1])
            steps.append(step_s)
        return steps

    def mean_s(self):
        return self.median_s * (1 + self.outlier_share * (self.outlier - 1))

    def median_of_all_s(self):
        """The quantile 0.5 / (1 - share) of the usual steps, by the density of the normal distribution at 0."""
        share = self.outlier_share
        return self.median_s * (1 + self.noise * math.sqrt(2 * math.pi) * 0.5 * share / (1 - share))


class Program:
    def __init__(self, lockstep, network, folder):
        self.lockstep, self.network, self.folder = lockstep, os.path.abspath(network), folder

    def bench(self, launches, flags, name="row.json"):
        """The row of a run whose launches take these steps."""
        told, path = os.path.join(self.folder, "told.txt"), os.path.join(self.folder, name)
        with open(told, "w", encoding="ascii") as file:
            file.writelines(" ".join(f"{step_s:.9f}" for step_s in steps) + "\n" for steps in launches)
        self.run(["bench", "--model", f"{self.network}:told", "--ranks", "1", "--strategy", "single", "--no-controls",
                  "--threads", "1", "--quiet", *flags, "--json", path, "--force"],
                 {"LD_PRELOAD": self.network, "LOCKSTEP_TOLD": told})
        with open(path, encoding="utf-8") as file:
            return json.load(file)["lockstep"]["runs"][0]

    def run(self, words, environment=None):
        finished = subprocess.run([self.lockstep, *words], capture_output=True, text=True, check=False,
                                  env={**os.environ, **(environment or {})})
        if finished.returncode != 0:
            sys.exit(f"lockstep {' '.join(words)} ended with {finished.returncode}:\n{finished.stderr}")
        return finished


def holds(interval, truth):
    """Whether the interval holds the truth; None: there is none."""
    if not interval or interval["low"] is None:
        return None
    return interval["low"] <= truth <= interval["high"]


def percent(found):
    given = [one for one in found if one is not None]
    return 100 * sum(given) / len(given) if given else 0.0


def slack(share, count):
    """Two standard deviations of a share in percent that was found in so many rows."""
    return 200 * math.sqrt(share * (1 - share) / max(count, 1))


def print_row(cells, right):
    """A row of a table; gives back whether its promise holds."""
    print(f"| {' | '.join(cells)} |{'' if right else ' <-- out of band'}", flush=True)
    return right


def settled_table(program, rows, generator):
    print("| settled steps | rows | median's interval holds % | mean's % | none % | steps |\n|---|---|---|---|---|---|")
    good = True
    for name, series in {
            "40 ms, 5 % noise": Series(0.04, 0.05),
            "4 ms, 2 % noise": Series(0.004, 0.02),
            "4 ms, 2 % noise, 1 % of the steps take 10 times as long": Series(0.004, 0.02, 0.01, 10),
    }.items():
        medians, means, steps = [], [], 0
        for _ in range(rows):
            row = program.bench([series.draw(generator)], [])
            medians.append(holds(row["step_interval_s"], series.median_of_all_s()))
            means.append(holds(row["images_per_s_interval"], 4 / series.mean_s()))
            steps += len(row["samples"]) / rows
        missing = 100 * medians.count(None) / rows
        slack_percent = slack(0.95, rows)
        right = all(93 - slack_percent <= percent(found) <= 97 + slack_percent for found in (medians, means))
        good &= print_row([name, f"{rows}", f"{percent(medians):.1f}", f"{percent(means):.1f}", f"{missing:.1f}",
                           f"{steps:.0f}"], right)
    return good


def decay_table(program, rows, generator):
    print("\n| steps that --max-time cuts within a decay | rows | without interval % |\n|---|---|---|")
    good = True
    for share, constant in ((1, 75), (1, 150), (1, 300), (0.3, 75), (0.3, 150)):
        series = Series(0.1, 0.02, decay=(share, constant))
        missing = 0
        for _ in range(rows):
            row = program.bench([series.draw(generator)], ["--max-time", "15"])
            missing += holds(row["images_per_s_interval"], 0) is None and holds(row["step_interval_s"], 0) is None
        name = f"{100 * share:.0f} % longer at first, time constant {constant} steps of 0.1 s, cut after 15 s"
        good &= print_row([name, f"{rows}", f"{100 * missing / rows:.1f}"],
                          100 * missing / rows >= 95 - slack(0.95, rows))
    return good


def launches_table(program, rows, generator):
    print("\n| equals compared, launches differ by 2 % | comparisons | told apart % |\n|---|---|---|")
    good = True
    series = Series(0.1, 0.02)
    for base, test in ((2, 10), (4, 10)):
        alarms = 0
        for _ in range(rows):
            for name, launches in (("base.json", base), ("test.json", test)):
                # More lines than launches, for a process takes one by chance.
                lines = [series.draw(generator, 1 + 0.02 * generator.gauss(0, 1), 400) for _ in range(100)]
                program.bench(lines, ["--repeat", str(launches), "--steps", "60", "--warmup", "5"], name)
            text = program.run(["diff", *(os.path.join(program.folder, name) for name in ("base.json", "test.json"))])
            alarms += re.search(r"^1 rows?: .*\b1 (faster|slower)\b", text.stdout, re.MULTILINE) is not None
        good &= print_row([f"{base} launches with {test}", f"{rows}", f"{100 * alarms / rows:.1f}"],
                          100 * alarms / rows <= 6 + slack(0.06, rows))
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lockstep", default="build/lockstep")
    parser.add_argument("--network", default="build/bench/libtold_network.so", help="told_network.cpp's")
    parser.add_argument("--rows", type=int, default=400, help="rows of each series")
    parser.add_argument("--comparisons", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tables", default="settled,decays,launches", help="which ones [all]")
    options = parser.parse_args()
    tables = {"settled": (settled_table, options.rows), "decays": (decay_table, options.rows),
              "launches": (launches_table, options.comparisons)}
    wanted = options.tables.split(",")
    if unknown := set(wanted) - set(tables):
        parser.error(f"there is no table {', '.join(sorted(unknown))}; there are {', '.join(tables)}")
    good = True
    with tempfile.TemporaryDirectory() as folder:
        program = Program(options.lockstep, options.network, folder)
        # A table has its own numbers, whichever others are made.
        for seed, (name, (table, count)) in enumerate(tables.items(), options.seed):
            if name in wanted:
                good &= table(program, count, random.Random(seed))
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
