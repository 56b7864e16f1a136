#!/usr/bin/env python3
"""What `lockstep record` costs a training while its window is closed: the training bare and recorded, in turn.

    bench/record_cost.py [--pairs 12] [--steps 6000] [--layers 4] PYTHON

PYTHON: one with torch. Its training prints the median of its own step times; recorded, the window lies behind its last
step. Prints the ratio of both with its 95 % interval over the pairs (Student's t on logarithms), and the step time.

Tensors stay below 128 KB (181 features): for larger ones glibc's malloc adapts to what a process frees, and bare steps
differ by 20 % from process to process, by the pages that they touch anew.
"""

import argparse
import math
import statistics
import subprocess
import sys
import tempfile

from vs_python import ROOT, ratio_interval

PROGRAM = ROOT / "build" / "lockstep"

TRAINING = """
import statistics, sys, time, torch
torch.set_num_threads(1)
steps, features, layers = map(int, sys.argv[1:])
model = torch.nn.Sequential(*[torch.nn.Linear(features, features) for _ in range(layers)])
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(8, features)
ends = []
for _ in range(steps):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
    ends.append(time.perf_counter())
print(statistics.median(b - a for a, b in zip(ends[steps // 3 :], ends[steps // 3 + 1 :])))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--features", type=int, default=160)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("python")
    options = parser.parse_args()
    if options.pairs < 2:
        parser.error("--pairs: two or more, for an interval")
    ratios, bare_s = [], []
    with tempfile.TemporaryDirectory() as folder:
        bare = [options.python, "-c", TRAINING, options.steps, options.features, options.layers]
        record = [PROGRAM, "record", "--quiet", "--force", "--steps", f"{options.steps + 9}:{options.steps + 10}"]
        for pair in range(options.pairs):
            sides = {"bare": bare, "recorded": [*record, "--keep", f"{folder}/{pair}", "--", *bare]}
            order = list(sides) if pair % 2 == 0 else list(sides)[::-1]
            seconds = {}
            for side in order:
                text = subprocess.run(
                    list(map(str, sides[side])), check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
                ).stdout  # fmt: skip
                seconds[side] = float(text.split()[0])
            ratios.append(math.log(seconds["recorded"] / seconds["bare"]))
            bare_s.append(seconds["bare"])
            print(f"pair {pair + 1}: {100 * math.expm1(ratios[-1]):+.2f} %", file=sys.stderr)
    mean, low, high = (100 * (ratio - 1) for ratio in ratio_interval(ratios))
    print(
        f"recorded / bare: {mean:+.2f} % [{low:+.2f}, {high:+.2f}] of {1e3 * statistics.median(bare_s):.3f} ms a step, "
        f"{len(ratios)} pairs"
    )


if __name__ == "__main__":
    main()
