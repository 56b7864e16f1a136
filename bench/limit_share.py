#!/usr/bin/env python3
"""A measured row beside the limit of the processor, which is the sum of its primitives' best times.

  bench/limit_share.py --model resnet50 --batch 16
  bench/limit_share.py --model resnet50 --batch 16 --precision bf16 --repeats 5 --steps 5

One rank on all cores. Each repetition runs `lockstep bench --json` and build/bench/limit, in turn, and the order
changes from one repetition to the next. Printed as Markdown: images/s by the median step, the limit's images/s, and the
share of the limit that the median and the shortest step reach, with 95 % intervals (Student's t on the logarithms of
the repetitions' shares; none for one repetition).

Needs build/bench/limit: setup/build.sh release -DLOCKSTEP_BENCHMARKS=ON -- limit.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from vs_python import ROOT, bench_runs, ratio_interval


def row_flags(options):
    flags = ["--model", options.model, "--precision", options.precision, "--threads", str(options.threads)]
    for name in ("batch", "image_size"):
        if getattr(options, name):
            flags += ["--" + name.replace("_", "-"), str(getattr(options, name))]
    return flags


def measure_row(options):
    """Median and shortest step of one launch, and the images of a step."""
    run, = bench_runs(options, *row_flags(options), "--ranks", "1", "--strategy", "single")
    steps = [max(step) for step in run["samples"]]
    return statistics.median(steps), min(steps), run["batch_per_rank"]


def measure_limit(options):
    """The least seconds of a step."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "limit.json"
        done = subprocess.run([options.limit, *row_flags(options), "--json", str(path)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{options.limit} failed:\n{done.stderr}")
        return json.loads(path.read_text())["step_s"]


def share_text(shares):
    if min(shares) > 1:
        return "- (above 1: the limit was measured while something else ran)"
    if len(shares) == 1:
        return f"{shares[0]:.3f}"
    mean, low, high = ratio_interval([math.log(share) for share in shares])
    return f"{mean:.3f} [{low:.2f}, {high:.2f}]"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--batch", type=int, default=0, help="[the network's default]")
    parser.add_argument("--image-size", type=int, default=0, help="[the network's own]")
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--threads", type=int, default=0, help="[all cores]")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--lockstep", default=str(ROOT / "build" / "lockstep"), help="the program")
    parser.add_argument("--limit", default=str(ROOT / "build" / "bench" / "limit"), help="the program")
    parser.add_argument("--lockstep-flag", action="append", default=[], help="passed on to lockstep bench")
    options = parser.parse_args()
    options.threads = options.threads or len(os.sched_getaffinity(0))
    rows, limits = [], []
    for repetition in range(options.repeats):
        jobs = [lambda: rows.append(measure_row(options)), lambda: limits.append(measure_limit(options))]
        for job in jobs if repetition % 2 == 0 else reversed(jobs):
            job()
    images = rows[0][2]
    print("| network | batch | precision | images/s | limit, images/s | of the limit | shortest step of the limit |")
    print("|---" * 7 + "|")
    print(f"| `{options.model}` | {images} | {options.precision} "
          f"| {images / statistics.median(median for median, _, _ in rows):.2f} "
          f"| {images / statistics.median(limits):.2f} "
          f"| {share_text([limit / median for (median, _, _), limit in zip(rows, limits)])} "
          f"| {share_text([limit / shortest for (_, shortest, _), limit in zip(rows, limits)])} |")


if __name__ == "__main__":
    main()
