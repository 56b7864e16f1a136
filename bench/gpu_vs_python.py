#!/usr/bin/env python3
"""lockstep against Python PyTorch on one GPU, in turn.

  bench/gpu_vs_python.py                             resnet50, batch 32 and 256 in bf16, batch 32 in fp32 and tf32
  bench/gpu_vs_python.py --rows bf16:32 --repeats 9

Each repetition runs lockstep with and without --cuda-graph (replicated over nccl, one rank), and Python as eager
DistributedDataParallel with one rank and as torch.compile(mode="max-autotune"), each in a process of its own; the order
turns from one repetition to the next. Printed as Markdown: median steps, images per second, and for each Python
variant its step / lockstep's captured step (over 1: lockstep is faster) with 95 % intervals (Student's t on the
logarithms of the repetitions' ratios); last the share of the GPU's memory bandwidth that a step of the largest batch
must take at least (--bandwidth, and --bytes-per-image as counted from the network's activations).

Wants a GPU and a Python with torch and torchvision of the same version as lockstep's LibTorch.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
from pathlib import Path

from vs_python import ROOT, bench_runs, ratio_interval


def lockstep_step(options, precision, batch, graph):
    flags = ["--model", options.model, "--batch", str(batch), "--ranks", "1", "--strategy", "replicated",
             "--device", "cuda", "--precision", precision] + (["--cuda-graph"] if graph else [])
    (run,) = [run for run in bench_runs(options, *flags) if run["strategy"] == "replicated"]
    return statistics.median(max(step) for step in run["samples"])


def python_step(options, precision, batch, variant):
    script = ROOT / "bench" / "python" / "gpu_train_step.py"
    command = [options.python, str(script), "--model", options.model, "--batch", str(batch), "--precision", precision,
               "--variant", variant, "--steps", str(options.steps), "--warmup", str(options.warmup)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"the Python side failed ({variant}, {precision}, batch {batch})")
    return statistics.median(json.loads(done.stdout.strip().splitlines()[-1])["step_s"])


def measure(options, precision, batch):
    jobs = {"captured": lambda: lockstep_step(options, precision, batch, True),
            "eager": lambda: lockstep_step(options, precision, batch, False),
            "Python DDP": lambda: python_step(options, precision, batch, "ddp"),
            "torch.compile": lambda: python_step(options, precision, batch, "compiled")}
    steps = {name: [] for name in jobs}
    for repetition in range(options.repeats):
        order = list(jobs)
        shift = repetition % len(order)
        for name in order[shift:] + order[:shift]:
            steps[name].append(jobs[name]())
            print(f"{precision} {batch} {name}: {steps[name][-1] * 1e3:.3f} ms", file=sys.stderr, flush=True)
    return steps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--rows", default="bf16:32,bf16:256,tf32:32,fp32:32", help="PRECISION:BATCH,...")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--warmup", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--bandwidth", type=float, default=4.8e12, help="of the GPU's memory, bytes per second")
    parser.add_argument("--bytes-per-image", type=float, default=0, help="[not told]")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--lockstep", default=str(ROOT / "build" / "lockstep"), help="the program")
    parser.add_argument("--lockstep-flag", action="append", default=[], help="passed on to lockstep bench")
    options = parser.parse_args()

    others = ["eager", "Python DDP", "torch.compile"]
    print("| precision | batch | captured | images/s | " + " | ".join(f"{name} | / captured" for name in others) + " |")
    print("|---" * (4 + 2 * len(others)) + "|")
    for row in options.rows.split(","):
        precision, _, batch = row.partition(":")
        if not batch.isdigit():
            sys.exit(f"--rows wants PRECISION:BATCH, not '{row}'")
        steps = measure(options, precision, int(batch))
        captured = statistics.median(steps["captured"])
        cells = [precision, batch, f"{captured * 1e3:.3f} ms", f"{int(batch) / captured:.0f}"]
        for name in others:
            logs = [math.log(theirs / ours) for theirs, ours in zip(steps[name], steps["captured"])]
            middle, low, high = ratio_interval(logs)
            cells += [f"{statistics.median(steps[name]) * 1e3:.3f} ms", f"{middle:.3f} [{low:.2f}, {high:.2f}]"]
        print("| " + " | ".join(cells) + " |", flush=True)
        if options.bytes_per_image:
            least = int(batch) * options.bytes_per_image / options.bandwidth
            print(f"\nMoving {options.bytes_per_image / 1e6:.0f} MB an image takes {least * 1e3:.3f} ms: "
                  f"{least / captured:.0%} of the captured step.\n", flush=True)


if __name__ == "__main__":
    main()
