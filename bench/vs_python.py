#!/usr/bin/env python3
"""lockstep against Python PyTorch at its fastest, in turn on the same cores.

  bench/vs_python.py --ranks 1            one rank: torchvision's network, channels-last, fused and foreach SGD
  bench/vs_python.py --ranks 2            two ranks: Python DistributedDataParallel over Gloo

Each repetition runs lockstep and then every Python variant, each in processes of its own; the order turns round
from one repetition to the next. Per repetition the ratio is the fastest Python variant's median step divided by
lockstep's (over 1: lockstep is faster). Printed: each side's medians and the ratio's median with a 95 % interval
(Student's t on the logarithms of the repetitions' ratios).

Needs a Python with torch and torchvision, made by `make setup-python` (.venv-dev); lockstep itself does not.
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

ROOT = Path(__file__).resolve().parent.parent
# Two-sided 97.5 % quantiles of Student's t, by degrees of freedom.
T_QUANTILE = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13]


def bench_runs(options, *flags):
    """The runs of one launch of `lockstep bench` with these flags and --lockstep-flag; ends where it fails."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        # What stands beside it is measured on processors, unless a flag says otherwise.
        chosen = any(flag.startswith("--device") for flag in [*flags, *options.lockstep_flag])
        device = [] if chosen else ["--device", "cpu"]
        command = [options.lockstep, "bench", "--quiet", "--no-controls", "--json", str(path), "--steps",
                   str(options.steps), "--warmup", str(options.warmup), *device, *flags, *options.lockstep_flag]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=folder)
        if done.returncode != 0:
            sys.exit(f"lockstep failed:\n{done.stderr}")
        return json.loads(path.read_text())["lockstep"]["runs"]


def run_lockstep(options, cpus):
    strategy = "single" if options.ranks == 1 else options.strategy
    runs = bench_runs(
        options, "--model", options.model, "--batch", str(options.batch), "--ranks", str(options.ranks), "--strategy",
        strategy, "--backend", options.backend, "--precision", options.precision, "--threads", str(options.threads),
        "--image-size", str(options.image_size))
    (run,) = [r for r in runs if r["strategy"] == strategy and r["ranks"] == options.ranks]
    return [max(step) for step in run["samples"]]


def run_python(options, cpus, optimizer):
    script = ROOT / "bench" / "python" / "train_step.py"
    processes = []
    port = str(20000 + os.getpid() % 20000)
    for rank in range(options.ranks):
        mine = cpus[rank * options.threads:(rank + 1) * options.threads]
        environment = dict(os.environ)
        if options.ranks > 1:
            environment.update(RANK=str(rank), WORLD_SIZE=str(options.ranks), LOCAL_RANK=str(rank),
                               MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
        command = [
            options.python, str(script), "--model", options.model, "--batch", str(options.batch),
            "--threads", str(options.threads), "--steps", str(options.steps), "--warmup", str(options.warmup),
            "--image-size", str(options.image_size), "--precision", options.precision,
            "--optimizer", optimizer, "--cpus", ",".join(map(str, mine)),
        ]
        processes.append(subprocess.Popen(command, env=environment, text=True,
                                          stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL))
    text, _ = processes[0].communicate()
    if any(p.wait() != 0 for p in processes):
        sys.exit("the Python side failed")
    return json.loads(text.strip().splitlines()[-1])["step_s"]


def ratio_interval(log_ratios):
    """The 95 % interval of the ratios' geometric mean: its middle, lower and upper end."""
    middle = statistics.mean(log_ratios)
    half = 0.0
    if len(log_ratios) > 1:
        quantile = T_QUANTILE[min(len(log_ratios) - 2, len(T_QUANTILE) - 1)]
        half = quantile * statistics.stdev(log_ratios) / math.sqrt(len(log_ratios))
    return math.exp(middle), math.exp(middle - half), math.exp(middle + half)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--threads", type=int, default=0, help="per rank [cores / ranks]")
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--strategy", default="ddp", help="lockstep's on several ranks; Python's is DDP")
    parser.add_argument("--backend", default="gloo", help="lockstep's backend; Python's is gloo")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--optimizers", default="fused,foreach", help="Python's variants; its best counts")
    parser.add_argument("--python", default=str(ROOT / ".venv-dev" / "bin" / "python"))
    parser.add_argument("--lockstep", default=str(ROOT / "build" / "lockstep"), help="the program")
    parser.add_argument("--lockstep-flag", action="append", default=[], help="passed on to lockstep bench")
    options = parser.parse_args()
    cpus = sorted(os.sched_getaffinity(0))
    options.threads = options.threads or max(1, len(cpus) // options.ranks)

    ours, best, log_ratios = [], [], []
    variants = options.optimizers.split(",")
    for repetition in range(options.repeats):
        jobs = ["lockstep", *variants]
        if repetition % 2:
            jobs.reverse()
        medians = {}
        for job in jobs:
            steps = run_lockstep(options, cpus) if job == "lockstep" else run_python(options, cpus, job)
            medians[job] = statistics.median(steps)
        fastest = min(variants, key=medians.get)
        ours.append(medians["lockstep"])
        best.append(medians[fastest])
        log_ratios.append(math.log(best[-1] / ours[-1]))
        print(f"repetition {repetition + 1}: lockstep {ours[-1]:.4f} s, "
              + ", ".join(f"python {v} {medians[v]:.4f} s" for v in variants)
              + f", ratio {best[-1] / ours[-1]:.3f}", flush=True)

    _, low, high = ratio_interval(log_ratios)
    images = options.batch * options.ranks
    print(f"{options.model}, {options.precision}, batch {options.batch} per rank, {options.ranks} ranks x "
          f"{options.threads} threads, medians of {options.repeats} repetitions")
    print(f"  lockstep ({options.strategy + ' over ' + options.backend if options.ranks > 1 else 'single'}): "
          f"{statistics.median(ours):.4f} s, {images / statistics.median(ours):.2f} images/s")
    print(f"  Python PyTorch: {statistics.median(best):.4f} s, {images / statistics.median(best):.2f} images/s")
    print(f"  ratio {math.exp(statistics.median(log_ratios)):.3f}, 95 % interval "
          f"[{low:.3f}, {high:.3f}]")


if __name__ == "__main__":
    main()
