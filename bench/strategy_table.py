#!/usr/bin/env python3
"""Every strategy on the same network, data and machine, side by side: one table of
strategy x backend x model x ranks.

  bench/strategy_table.py                                  resnet50, vgg16 and alexnet on gloo and mpi, 2 ranks
  bench/strategy_table.py --model mlp:32:8 --backend gloo  one network (NAME:IMAGE_SIZE:BATCH), one backend
  bench/strategy_table.py --ranks 2,4                      on 4 ranks too: more than this machine may have cores
  bench/strategy_table.py --lr 0                           without the optimizer's update
  bench/strategy_table.py --python                         with Python DistributedDataParallel (over Gloo) beside it

A repetition is one launch of `lockstep bench` that measures all strategies one after the other; their order turns
round from one repetition to the next. Per repetition the ratio is ddp's median step divided by the strategy's (over
1: faster than ddp); printed are the medians of the steps, and the ratios' geometric mean with a 95 % interval
(Student's t on their logarithms). `communication` is the share of ddp's step that its all-reduces take, hidden or
not, by `--breakdown` in a launch of its own. The output is a Markdown table.

--python needs torch and torchvision, made by `make setup-python` (.venv-dev); the rest does not.
"""

import argparse
import itertools
import math
import os
import statistics
import sys

from vs_python import ROOT, VariantFailed, bench_runs, ratio_interval, run_python

STRATEGIES = "ddp,replicated,horovod,sharded,parameter_server,bsp"


def lockstep_runs(options, cell, strategies, flags):
    model, size, batch, backend, ranks = cell
    runs = bench_runs(
        options, "--model", model, "--image-size", size, "--batch", batch, "--ranks", str(ranks), "--backend", backend,
        "--strategy", ",".join(strategies), "--lr", str(options.lr), *flags)
    return {run["strategy"]: run for run in runs if run["ranks"] == ranks}


def median_step(run):
    return statistics.median(max(step) for step in run["samples"])


def communication_share(options, cell):
    breakdown = lockstep_runs(options, cell, ["ddp"], ["--breakdown"])["ddp"]["breakdown"]
    return breakdown["communication_s"] / breakdown["phases"]["step_s"]


def measure(options, cell, strategies):
    """Median steps of every strategy, by repetition."""
    model, size, batch, backend, ranks = cell
    steps = {name: [] for name in strategies}
    for repetition in range(options.repeats):
        order = strategies if repetition % 2 == 0 else strategies[::-1]
        runs = lockstep_runs(options, cell, [name for name in order if name != "Python DDP"], [])
        for name, run in runs.items():
            steps[name].append(median_step(run))
        if "Python DDP" in steps:
            python = argparse.Namespace(**{**vars(options), "model": model, "image_size": size, "batch": batch,
                                           "precision": "fp32", "ranks": ranks,
                                           "threads": max(1, len(options.cpus) // ranks)})
            try:
                steps["Python DDP"].append(statistics.median(run_python(python, options.cpus, options.variant)))
            except VariantFailed as error:
                sys.exit(f"Python {options.variant} failed: {error}")
        print(f"{model} {backend} {ranks} ranks, repetition {repetition + 1}: "
              + ", ".join(f"{name} {values[-1]:.4f}" for name, values in steps.items()), file=sys.stderr)
    return steps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet50:64:8,vgg16:32:4,alexnet:64:8", help="NAME:IMAGE_SIZE:BATCH")
    parser.add_argument("--backend", default="gloo,mpi")
    parser.add_argument("--strategy", default=STRATEGIES, help="ddp is always among them")
    parser.add_argument("--ranks", default="2", help="numbers of ranks, a comma between two")
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--lr", type=float, default=0.001, help="0: without the optimizer's update")
    parser.add_argument("--python", nargs="?", const=str(ROOT / ".venv-dev" / "bin" / "python"), default="")
    parser.add_argument("--variant", default="fused+tcmalloc", help="of Python (bench/vs_python.py)")
    parser.add_argument("--lockstep", default=str(ROOT / "build" / "lockstep"), help="the program")
    parser.add_argument("--lockstep-flag", action="append", default=[], help="passed on to lockstep bench")
    options = parser.parse_args()
    options.cpus = sorted(os.sched_getaffinity(0))

    print("| model | ranks | backend | communication | strategy | step, ms | images/s | against ddp | 95 % interval |")
    print("|---|---|---|---|---|---|---|---|---|")
    settings = [options.model.split(","), options.ranks.split(","), options.backend.split(",")]
    for model, ranks, backend in itertools.product(*settings):
        cell = (*model.split(":"), backend, int(ranks))
        strategies = ["ddp"] + [name for name in options.strategy.split(",") if name != "ddp"]
        if options.python and backend == "gloo":
            strategies.append("Python DDP")
        share = communication_share(options, cell)
        steps = measure(options, cell, strategies)
        for name, values in steps.items():
            ratio, low, high = ratio_interval([math.log(ddp / own) for ddp, own in zip(steps["ddp"], values)])
            step_s = statistics.median(values)
            between = f"{low:.3f} to {high:.3f}" if len(values) > 1 and name != "ddp" else ""
            print(f"| {cell[0]} {cell[1]} x {cell[2]} | {ranks} | {backend} | {100 * share:.0f} % | {name} "
                  f"| {1000 * step_s:.1f} | {int(ranks) * int(cell[2]) / step_s:.1f} "
                  f"| {ratio:.3f} | {between} |", flush=True)


if __name__ == "__main__":
    main()
