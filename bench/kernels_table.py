#!/usr/bin/env python3
"""What the fused kernels bring: networks side by side with LibTorch's operations and with Python PyTorch.

  bench/kernels_table.py                              resnet50, 101, resnext50, vgg16, alexnet, googlenet, inception_v3
  bench/kernels_table.py --precision bf16 --models resnet50:16 --repeats 9

One rank on all cores. Each repetition runs lockstep with --kernels fused, with --kernels aten, and Python
(channels-last, set-to-none gradients, the same threads and pinning) in its variants (bench/vs_python.py; after the
first repetition the --keep fastest go on), of which the one with the shortest median counts for a network, each in
processes of its own, and the order rotates from one repetition to the next. Printed as Markdown: median steps, and
step of the other / step of fused (over 1: fused is faster) with 95 % intervals (Student's t on the logarithms of the repetitions' ratios), and their
geometric means over the networks. Every row has the processor and the instruction set, which ONEDNN_MAX_CPU_ISA limits.

Needs the Python that `make setup-python` makes (.venv-dev); without it (or with --no-python) that column is left out.
"""

import argparse
import math
import os
import statistics
import sys
from pathlib import Path

from vs_python import ROOT, bench_record, ratio_interval, run_python, take_turns

NETWORKS = "resnet50:16,resnet101:8,resnext50_32x4d:8,vgg16:8,alexnet:64,googlenet:16,inception_v3:8"
IMAGE_SIZE = {"inception_v3": 299}


def run_lockstep(options, network, kernels):
    record = bench_record(options, "--model", network.name, "--batch", str(network.batch), "--ranks", "1", "--strategy",
                          "single", "--precision", options.precision, "--threads", str(options.threads), "--kernels",
                          kernels)
    if record["kernel_detail"]:
        network.computed_on = record["machine"]["processor"], record["kernel_detail"].rpartition(", ")[2]
    return statistics.median(max(step) for step in record["runs"][0]["samples"])


class Network:
    def __init__(self, text):
        self.name, _, batch = text.partition(":")
        if not batch.isdigit():
            sys.exit(f"--models wants NAME:BATCH, not '{text}'")
        self.batch = int(batch)
        # The processor and the instruction set of the fused kernels.
        self.computed_on = "", ""


def python_step(options, network, cpus, variant):
    wanted = argparse.Namespace(**vars(options), ranks=1, model=network.name, batch=network.batch,
                                image_size=IMAGE_SIZE.get(network.name, 224))
    return statistics.median(run_python(wanted, cpus, variant))


def measure(options, network, cpus):
    """Step times by who took them, a list each, and Python's best variant."""
    jobs = {kernels: lambda kernels=kernels: run_lockstep(options, network, kernels) for kernels in ("fused", "aten")}
    variants = [f"Python {variant}" for variant in options.variants.split(",")] if options.with_python else []
    for name in variants:
        jobs[name] = lambda variant=name.split()[1]: python_step(options, network, cpus, variant)
    steps = take_turns(jobs, options.repeats, options.keep)
    best = min((name for name in variants if name in steps), key=lambda name: statistics.median(steps[name]),
               default="")
    if variants:
        steps["python"] = steps[best] if best else sys.exit("no variant of Python runs here: --no-python leaves it out")
    return steps, best.partition(" ")[2]


def ratio_text(interval):
    return f"{interval[0]:.3f} [{interval[1]:.2f}, {interval[2]:.2f}]"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=NETWORKS, help="NAME:BATCH,...")
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--threads", type=int, default=0, help="[all cores]")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-python", action="store_true")
    parser.add_argument("--variants", default="fused,fused+tcmalloc", help="of Python; its best counts")
    parser.add_argument("--keep", type=int, default=2, help="variants that go on after the first repetition [2]")
    parser.add_argument("--python", default=str(ROOT / ".venv-dev" / "bin" / "python"))
    parser.add_argument("--lockstep", default=str(ROOT / "build" / "lockstep"), help="the program")
    parser.add_argument("--lockstep-flag", action="append", default=[], help="passed on to lockstep bench")
    options = parser.parse_args()
    cpus = sorted(os.sched_getaffinity(0))
    options.threads = options.threads or len(cpus)
    options.with_python = not options.no_python and Path(options.python).exists()

    others = ["aten"] + (["python"] if options.with_python else [])
    print("| processor | instruction set | network | batch | fused | " + " | ".join(f"{other} | {other} / fused" for other in others)
          + " |")
    print("|---" * (5 + 2 * len(others)) + "|")
    logs = {other: [] for other in others}
    for network in map(Network, options.models.split(",")):
        steps, best = measure(options, network, cpus)
        fused = statistics.median(steps["fused"])
        cells = [*network.computed_on, f"`{network.name}`", str(network.batch), f"{fused * 1e3:.0f} ms"]
        for other in others:
            ratios = [math.log(theirs / ours) for theirs, ours in zip(steps[other], steps["fused"])]
            logs[other].append(statistics.mean(ratios))
            variant = f" ({best})" if other == "python" else ""
            cells += [f"{statistics.median(steps[other]) * 1e3:.0f} ms{variant}", ratio_text(ratio_interval(ratios))]
        print("| " + " | ".join(cells) + " |", flush=True)
    for other in others:
        print(f"\nGeometric mean over the networks, {other} / fused: {math.exp(statistics.mean(logs[other])):.3f}")


if __name__ == "__main__":
    main()
