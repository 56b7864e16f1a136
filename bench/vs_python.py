#!/usr/bin/env python3
"""lockstep against Python PyTorch at its best, in turn on the same cores.

  bench/vs_python.py --ranks 1            one rank: torchvision's network, channels-last
  bench/vs_python.py --ranks 2            two ranks: Python DistributedDataParallel over Gloo
  bench/vs_python.py --variants fused,fused+tcmalloc --lockstep-flag=--kernels --lockstep-flag=aten
  bench/vs_python.py --tf-cnn ~/benchmarks/scripts/tf_cnn_benchmarks --tf-python ~/tf/bin/python

Variants of Python are words joined by +: its optimizer (fused, foreach), then tcmalloc (preloaded, as PyTorch's tuning
guide recommends), pages (glibc keeps freed memory, as lockstep has it), compile (torch.compile). A variant that fails
on this machine is said and left out. All of them run once; then the --keep fastest go on.

--tf-cnn is a folder with tf_cnn_benchmarks.py, which joins at one rank in fp32: images as channels-last, momentum, weight
decay, and its --variable_update replicated. It runs as it is on a Python with tensorflow and tf_keras (2.21). It tells
its mean images/s alone, so its step is the mean's.

Each repetition runs lockstep and the variants, each in processes of its own; the order rotates from one repetition to
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
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VARIANTS = "fused,foreach,fused+tcmalloc,fused+pages,fused+compile,fused+compile+tcmalloc"
TF_CNN = "tf_cnn_benchmarks"
TF_CNN_MODELS = {"resnet50": "resnet50_v1.5", "resnet101": "resnet101_v1.5", "inception_v3": "inception3"}
# Two-sided 97.5 % quantiles of Student's t, by degrees of freedom.
T_QUANTILE = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13]


def bench_record(options, *flags):
    """The record of one launch of `lockstep bench` with these flags and --lockstep-flag; ends where it fails."""
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
        return json.loads(path.read_text())["lockstep"]


def bench_runs(options, *flags):
    return bench_record(options, *flags)["runs"]


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


def run_tf_cnn(options, cpus):
    """The mean step of tf_cnn_benchmarks; throws VariantFailed."""
    if options.ranks > 1 or options.precision != "fp32":
        raise VariantFailed("it joins at one rank, in fp32")
    threads = ["--num_inter_threads", "1", "--num_intra_threads", str(options.threads)]
    command = [
        options.tf_python, os.path.join(options.tf_cnn, "tf_cnn_benchmarks.py"), "--device", "cpu",
        "--local_parameter_device", "cpu", "--data_format", "NHWC", "--variable_update", "replicated",
        "--model", TF_CNN_MODELS.get(options.model, options.model), "--batch_size", str(options.batch),
        "--num_batches", str(options.steps), "--num_warmup_batches", str(options.warmup), "--display_every", "1",
        "--optimizer", "momentum", "--weight_decay", "1e-4", *threads]
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          env={**os.environ, "TF_USE_LEGACY_KERAS": "1"},
                          preexec_fn=lambda: os.sched_setaffinity(0, cpus[:options.threads]))
    rate = re.search(r"^total images/sec: ([\d.]+)", done.stdout, re.MULTILINE)
    if done.returncode != 0 or rate is None:
        raise VariantFailed((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])
    return [options.batch / float(rate[1])]


def run_again(name, job):
    """A variant that ran before may fail once: Python's processes crash at their end now and then."""
    try:
        return job()
    except VariantFailed as error:
        print(f"{name} is tried once more: {error}", file=sys.stderr)
        return job()


def take_turns(jobs, repeats, keep, cost=lambda taken: taken):
    """What each of the jobs gave, by name, in repetitions whose order rotates. A job that throws VariantFailed is left
    out; after the first repetition so are all Python variants but the `keep` of least cost."""
    taken = {name: [] for name in jobs}
    for repetition in range(repeats):
        order = list(taken)
        shift = repetition % len(order)
        for name in order[shift:] + order[:shift]:
            try:
                taken[name].append(run_again(name, jobs[name]) if taken[name] else jobs[name]())
            except VariantFailed as error:
                print(f"{name} is left out: {error}", file=sys.stderr)
                del taken[name]
                continue
            print(f"repetition {repetition + 1} of {repeats}, {name}: {cost(taken[name][-1]):.4f} s", file=sys.stderr,
                  flush=True)
        if repetition == 0:
            variants = [name for name in taken if name.startswith("Python ")]
            for name in sorted(variants, key=lambda name: cost(taken[name][0]))[keep:]:
                print(f"{name} is left out: {cost(taken[name][0]):.4f} s is not among the {keep} shortest",
                      file=sys.stderr)
                del taken[name]
    return taken


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
    parser.add_argument("--keep", type=int, default=2, help="variants that go on after the first repetition [2]")
    parser.add_argument("--tf-cnn", default="", help="a folder with tf_cnn_benchmarks.py")
    parser.add_argument("--tf-python", default="python3", help="a Python with tensorflow and tf_keras [python3]")
    parser.add_argument("--python", default=str(ROOT / ".venv-dev" / "bin" / "python"))
    parser.add_argument("--lockstep", default=str(ROOT / "build" / "lockstep"), help="the program")
    parser.add_argument("--lockstep-flag", action="append", default=[], help="passed on to lockstep bench")
    options = parser.parse_args()
    cpus = sorted(os.sched_getaffinity(0))
    options.threads = options.threads or max(1, len(cpus) // options.ranks)

    steps = measure(options, cpus)
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
        cells = [side, *circumstances(options, side), f"{middle:.4f}",
                 f"{images / middle:.2f}", f"**{ratio}**" if side == best else ratio]
        print("| " + " | ".join(cells) + " |")


def circumstances(options, side):
    """Kernels, backend and allocator of a side."""
    if side == "lockstep":
        flags = " ".join(options.lockstep_flag)
        kernels = "aten" if "--kernels aten" in flags or "--kernels=aten" in flags else "fused"
        return kernels, f"{options.strategy} over {options.backend}" if options.ranks > 1 else "", "glibc, kept pages"
    if side == TF_CNN:
        return "TensorFlow", "", "glibc"
    words = side.split("+")
    allocator = "tcmalloc" if "tcmalloc" in words else "glibc, kept pages" if "pages" in words else "glibc"
    return "inductor" if "compile" in words else "aten", "DDP over gloo" if options.ranks > 1 else "", allocator


def measure(options, cpus):
    """Median steps, one for each repetition, by side."""
    jobs = {"lockstep": lambda: statistics.median(run_lockstep(options, cpus))}
    for variant in options.variants.split(","):
        jobs[f"Python {variant}"] = lambda variant=variant: statistics.median(run_python(options, cpus, variant))
    if options.tf_cnn:
        jobs[TF_CNN] = lambda: statistics.median(run_tf_cnn(options, cpus))
    return take_turns(jobs, options.repeats, options.keep)


if __name__ == "__main__":
    main()
