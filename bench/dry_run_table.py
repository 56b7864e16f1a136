#!/usr/bin/env python3
"""What `lockstep bench --dry-run` promises beside what the run takes: one row per plan.

  bench/dry_run_table.py                       twelve plans: networks, ranks, precisions, backends
  bench/dry_run_table.py --only vgg16          those whose flags contain a text
  bench/dry_run_table.py --csv FILE            the same rows as CSV too

Of every plan: the estimate, the time of the real run from start to end, their ratio (real over estimated), and the time
that --dry-run itself took. All plans have a fixed number of steps, so their estimates are single figures. A
ratio beyond 0.67 to 1.5 on a quiet machine is a fault. The table is Markdown. Exit code 1 if a ratio is beyond these.
"""

import argparse
import csv
import datetime
import os
import re
import shlex
import subprocess
import sys
import time

PLANS = """
--model resnet50 --batch 4 --ranks 1,2 --steps 20 --warmup 3
--model resnet18 --image-size 64 --batch 8 --ranks 1,2 --steps 60 --warmup 5
--model resnet50 --batch 8 --ranks 1 --precision bf16 --steps 20 --warmup 3
--model resnet18 --batch 8 --ranks 1,2 --precision fp32,bf16 --steps 20 --warmup 3
--model alexnet --batch 16 --ranks 2 --strategy ddp,replicated --steps 20 --warmup 3
--model vgg16 --batch 4 --ranks 1 --steps 8 --warmup 2
--model googlenet --batch 8 --ranks 1 --steps 20 --warmup 3 --breakdown
--model inception_v3 --batch 4 --ranks 2 --backend mpi --steps 12 --warmup 3
--model resnet101 --batch 2 --ranks 2 --kernels aten --steps 12 --warmup 3
--model lenet5,mlp --batch 32 --ranks 1,2 --steps 400 --warmup 20
--model resnet50 --image-size 64 --batch 8 --ranks 2 --strategy replicated --backend mpi --steps 60 --warmup 5
--model resnet18,alexnet --image-size 64 --batch 8 --ranks 1,2 --steps 40 --warmup 5 --accumulate 2
""".strip().splitlines()

SECONDS = {"h": 3600, "min": 60, "s": 1, "ms": 1e-3, "us": 1e-6}
LEAST, MOST = 1 / 1.5, 1.5


def seconds_of(text):
    """'1 h 02 min', '3 min 20 s', '1.23 s'."""
    return sum(float(number) * SECONDS[unit] for number, unit in re.findall(r"([\d.]+) (h|min|s|ms|us)\b", text))


def run(command):
    begin = time.perf_counter()
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        sys.exit(f"{shlex.join(command)} ended with {finished.returncode}:\n{finished.stderr}")
    return finished.stdout, time.perf_counter() - begin


def measure(lockstep, plan):
    command = [lockstep, "bench", *plan.split()]
    text, own_s = run([*command, "--dry-run"])
    estimate = re.search(r"^about (.*?) in all", text, re.MULTILINE)
    if estimate is None:
        sys.exit(f"no estimate in the output of {shlex.join(command)} --dry-run:\n{text}")
    return seconds_of(estimate[1]), run(command)[1], own_s


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser.add_argument("--lockstep", default=os.path.join(root, "build/lockstep"))
    parser.add_argument("--only", default="")
    parser.add_argument("--csv")
    options = parser.parse_args()
    rows, broken = [], 0
    print("| flags of `lockstep bench` | estimated | real | ratio | `--dry-run` itself |\n|---|---|---|---|---|")
    for plan in PLANS:
        if options.only not in plan:
            continue
        estimated_s, real_s, own_s = measure(options.lockstep, plan)
        ratio = real_s / estimated_s
        broken += not LEAST <= ratio <= MOST
        rows.append([datetime.date.today().isoformat(), plan, f"{estimated_s:.2f}", f"{real_s:.2f}", f"{ratio:.3f}",
                     f"{own_s:.2f}"])
        print(f"| `{plan}` | {estimated_s:.1f} s | {real_s:.1f} s | {ratio:.2f} | {own_s:.1f} s |", flush=True)
    if options.csv:
        with open(options.csv, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["date", "flags", "estimated_s", "real_s", "ratio", "dry_run_s"])
            writer.writerows(rows)
    print(f"\n{broken} of {len(rows)} ratios are beyond {LEAST} to {MOST}")
    return 1 if broken or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
