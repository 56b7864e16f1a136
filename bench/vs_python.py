#!/usr/bin/env python3
"""lockstep against Python PyTorch at its best, in turn on the same cores.

  bench/vs_python.py --ranks 1            one rank: torchvision's network, channels-last
  bench/vs_python.py --ranks 2            two ranks: Python DistributedDataParallel over Gloo
  bench/vs_python.py --variants fused,fused+tcmalloc --lockstep-flag=--kernels --lockstep-flag=aten

Variants of Python are words joined by +: its optimizer (fused, foreach), then tcmalloc (preloaded, as PyTorch's tuning
guide recommends), pages (glibc keeps freed memory, as lockstep has it), compile (torch.compile). A variant that fails
on this machine is said and left out.

Each repetition runs lockstep and every variant, each in processes of its own; the order rotates from one repetition to
the next. The best variant is the one with the shortest median over all repetitions, and a repetition's ratio is its
median step divided by lockstep's (over 1: lockstep is faster). Printed as Markdown: a row for each side with what it
runs on, and its ratio's median with that median's 95 % interval, from order statistics (from six repetitions on; the
range of fewer, which says so).

Needs a Python with torch and torchvision, made by `make setup-python` (.venv-dev); lockstep itself does not.
"""

import argparse
import ctypes.util
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VARIANTS = "fused,foreach,fused+tcmalloc,fused+pages,fused+compile,fused+compile+tcmalloc"
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


class VariantFailed(Exception):
    """Python cannot run so here."""


def preload_of(words):
    """What the dynamic linker loads before all else."""
    if "tcmalloc" not in words:
        return {}
    library = ctypes.util.find_library("tcmalloc_minimal")
    if library is None:
        raise VariantFailed("there is no libtcmalloc_minimal (Debian: libtcmalloc-minimal4)")
    return {"LD_PRELOAD": library}


def run_python(options, cpus, variant):
    """Seconds of the steps of Python, run as `variant` says; throws VariantFailed."""
    optimizer, *words = variant.split("+")
    script = ROOT / "bench" / "python" / "train_step.py"
    processes = []
    port = str(20000 + os.getpid() % 20000)
    for rank in range(options.ranks):
        mine = cpus[rank * options.threads:(rank + 1) * options.threads]
        environment = dict(os.environ, **preload_of(words))
        if options.ranks > 1:
            environment.update(RANK=str(rank), WORLD_SIZE=str(options.ranks), LOCAL_RANK=str(rank),
                               MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
        command = [
            options.python, str(script), "--model", options.model, "--batch", str(options.batch),
            "--threads", str(options.threads), "--steps", str(options.steps), "--warmup", str(options.warmup),
            "--image-size", str(options.image_size), "--precision", options.precision,
            "--optimizer", optimizer, "--cpus", ",".join(map(str, mine)),
            *(["--keep-pages"] if "pages" in words else []), *(["--compile"] if "compile" in words else []),
        ]
        processes.append(subprocess.Popen(command, env=environment, text=True, stderr=subprocess.PIPE,
                                          stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL))
    outputs = [process.communicate() for process in processes]
    for process, (_, error) in zip(processes, outputs):
        if process.returncode != 0:
            raise VariantFailed((error.strip().splitlines() or [f"exit code {process.returncode}"])[-1])
    return json.loads(outputs[0][0].strip().splitlines()[-1])["step_s"]


def median_interval(values):
    """The median and the 95 % interval of the median, from order statistics: the narrowest symmetric one that a sign
    test does not reject (Conover, Practical Nonparametric Statistics, 3.2). Of fewer than six values: their range."""
    ordered = sorted(values)
    count = len(ordered)
    cut = 0
    while 2 * sum(math.comb(count, k) for k in range(cut + 1)) / 2**count <= 0.05:
        cut += 1
    low = max(cut - 1, 0)
    return statistics.median(ordered), ordered[low], ordered[count - 1 - low]


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
    parser.add_argument("--repeats", type=int, default=6)
    parser.add_argument("--variants", default=VARIANTS, help=f"of Python; its best counts [{VARIANTS}]")
    parser.add_argument("--python", default=str(ROOT / ".venv-dev" / "bin" / "python"))
    parser.add_argument("--lockstep", default=str(ROOT / "build" / "lockstep"), help="the program")
    parser.add_argument("--lockstep-flag", action="append", default=[], help="passed on to lockstep bench")
    options = parser.parse_args()
    cpus = sorted(os.sched_getaffinity(0))
    options.threads = options.threads or max(1, len(cpus) // options.ranks)

    variants = options.variants.split(",")
    steps = measure(options, cpus, variants)
    ours = steps.pop("lockstep")
    if not steps:
        sys.exit("no variant of Python runs here")
    best = min(steps, key=lambda variant: statistics.median(steps[variant]))
    images = options.batch * options.ranks
    print(f"\n{options.model}, {options.precision}, batch {options.batch} per rank, {options.ranks} ranks x "
          f"{options.threads} threads, {len(ours)} repetitions"
          + ("; the intervals are ranges, because these are few" if len(ours) < 6 else ""))
    print("\n| side | kernels | backend | allocator | median step, s | images/s | step / lockstep's |")
    print("|---|---|---|---|---|---|---|")
    for side, values in [("lockstep", ours), *steps.items()]:
        middle = statistics.median(values)
        ratio = "" if side == "lockstep" else "{:.3f} [{:.3f}, {:.3f}]".format(
            *median_interval([theirs / own for theirs, own in zip(values, ours)]))
        cells = [side if side == "lockstep" else f"Python {side}", *circumstances(options, side), f"{middle:.4f}",
                 f"{images / middle:.2f}", f"**{ratio}**" if side == best else ratio]
        print("| " + " | ".join(cells) + " |")


def circumstances(options, side):
    """Kernels, backend and allocator of a side."""
    if side == "lockstep":
        flags = " ".join(options.lockstep_flag)
        kernels = "aten" if "--kernels aten" in flags or "--kernels=aten" in flags else "fused"
        return kernels, f"{options.strategy} over {options.backend}" if options.ranks > 1 else "", "glibc, kept pages"
    words = side.split("+")
    allocator = "tcmalloc" if "tcmalloc" in words else "glibc, kept pages" if "pages" in words else "glibc"
    return "inductor" if "compile" in words else "aten", "DDP over gloo" if options.ranks > 1 else "", allocator


def measure(options, cpus, variants):
    """Median steps, one for each repetition, by side."""
    steps = {side: [] for side in ["lockstep", *variants]}
    for repetition in range(options.repeats):
        sides = list(steps)
        shift = repetition % len(sides)
        for side in sides[shift:] + sides[:shift]:
            try:
                taken = run_lockstep(options, cpus) if side == "lockstep" else run_python(options, cpus, side)
            except VariantFailed as error:
                print(f"Python {side} is left out: {error}", file=sys.stderr)
                del steps[side]
                continue
            steps[side].append(statistics.median(taken))
            print(f"repetition {repetition + 1} of {options.repeats}, {side}: {steps[side][-1]:.4f} s", file=sys.stderr,
                  flush=True)
    return steps


if __name__ == "__main__":
    main()
