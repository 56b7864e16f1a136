#!/usr/bin/env python3
"""lockstep against Python PyTorch on one GPU, in turn, and whether that is what lockstep promises.

  bench/gpu_vs_python.py                             resnet50, batch 32 and 256 in bf16, batch 32 in tf32 and fp32
  bench/gpu_vs_python.py --rows bf16:32 --repeats 9 --json bf16.json
  bench/gpu_vs_python.py --from bf16.json            what was measured there, shown and judged again

Each repetition runs lockstep with and without --cuda-graph (replicated over nccl, one rank), each in a process of its
own, and Python as eager DistributedDataParallel with one rank and as torch.compile(mode="max-autotune"), which records
CUDA graphs; these two are processes that were started and warmed up before the first repetition and sleep between
their turns, because compiling takes minutes. The order turns from one repetition to the next. Printed as Markdown:
median steps, images per second, and for each variant its step / lockstep's captured step (over 1: lockstep is faster)
with 95 % intervals (Student's t on the logarithms of the repetitions' ratios); which share of the captured step the
GPU's memory needs at least for the bytes that the network's operations move (bench/python/step_bytes.py), at the rate
of a copy on this GPU; and every promise with its verdict.

Exit code 1 when a promise is broken or Python's side failed. Wants a GPU and a Python with torch and torchvision.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from pathlib import Path

from gpu_promises import judge, verdict_table
from vs_python import ROOT, bench_runs, ratio_interval

# What a row is called in tables and files.
CAPTURED, EAGER, DDP, COMPILED = "captured", "eager", "Python DDP", "torch.compile"
OTHERS = [EAGER, DDP, COMPILED]


def python_environment():
    """Without the libraries that a bundle of setup/gpu-bundle.sh brings, which are lockstep's alone."""
    environment = dict(os.environ)
    folders = environment.get("LD_LIBRARY_PATH", "").split(":")
    environment["LD_LIBRARY_PATH"] = ":".join(folder for folder in folders if folder and Path(folder) != ROOT / "lib")
    return environment


class Python:
    """A Python training that is warm, and measures when it is told to."""

    def __init__(self, options, precision, batch, variant):
        # Python has no bf16 weights with fp32 masters: autocast is what does the same there.
        precision = {"bf16_pure": "bf16"}.get(precision, precision)
        script = ROOT / "bench" / "python" / "gpu_train_step.py"
        self.process = subprocess.Popen(
            [options.python, str(script), "--wait", "--model", options.model, "--batch", str(batch),
             "--image-size", str(options.image_size), "--precision", precision, "--variant", variant,
             "--steps", str(options.steps), "--warmup", str(options.warmup), "--device", options.python_device],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=python_environment())

    def read(self, key):
        """The next line of JSON with that key; None when the process has ended instead."""
        for line in self.process.stdout:
            # Others may write to stdout as well: torch.compile tells what it tried, in JSON, too.
            if line.startswith("{") and f'"{key}"' in line:
                return json.loads(line)
        return None

    def measure(self):
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return None
        answer = self.read("step_s")
        return answer and statistics.median(answer["step_s"])

    def end(self):
        self.process.stdin.close()
        self.process.stdout.close()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def lockstep_step(options, precision, batch, graph):
    flags = ["--model", options.model, "--batch", str(batch), "--image-size", str(options.image_size), "--ranks", "1",
             "--strategy", "replicated", "--precision", precision] + (["--cuda-graph"] if graph else [])
    if not any(flag.startswith("--device") for flag in options.lockstep_flag):
        flags += ["--device", "cuda"]
    (run,) = [run for run in bench_runs(options, *flags) if run["strategy"] == "replicated"]
    return statistics.median(max(step) for step in run["samples"])


def measure(options, precision, batch):
    """A row: the medians of every repetition's steps, and what they are measured against."""
    row = {"model": options.model, "image_size": options.image_size, "precision": precision, "batch": batch,
           "steps_s": {}}
    # Both at once: nothing is measured yet.
    pythons = {name: Python(options, precision, batch, variant)
               for name, variant in ((DDP, "ddp"), (COMPILED, "compiled"))}
    jobs = {CAPTURED: lambda: lockstep_step(options, precision, batch, True),
            EAGER: lambda: lockstep_step(options, precision, batch, False)}
    if options.no_cuda_graph:
        jobs[CAPTURED] = jobs[EAGER]
    try:
        for name, python in pythons.items():
            facts = python.read("copy_bytes_per_s")
            if facts is None:
                print(f"{precision} {batch} {name}: Python failed, its message is above", file=sys.stderr, flush=True)
                continue
            row.update({key: facts[key] for key in ("gpu", "torch", "copy_bytes_per_s", "bytes_per_image")})
            jobs[name] = python.measure
        row["steps_s"] = {name: [] for name in jobs}
        for repetition in range(options.repeats):
            order = list(jobs)
            shift = repetition % len(order)
            for name in order[shift:] + order[:shift]:
                step_s = jobs[name]()
                if step_s is None:
                    print(f"{precision} {batch} {name}: Python ended", file=sys.stderr, flush=True)
                    del jobs[name], row["steps_s"][name]
                    continue
                row["steps_s"][name].append(step_s)
                print(f"{precision} {batch} {name}: {step_s * 1e3:.3f} ms", file=sys.stderr, flush=True)
    finally:
        for python in pythons.values():
            python.end()
    return row


def table_head():
    return ("| precision | batch | captured | images/s | " + " | ".join(f"{name} | / captured" for name in OTHERS)
            + " | memory needs at least |\n" + "|---" * (5 + 2 * len(OTHERS)) + "|")


def table_line(row):
    captured = statistics.median(row["steps_s"][CAPTURED])
    cells = [row["precision"], str(row["batch"]), f"{captured * 1e3:.3f} ms", f"{row['batch'] / captured:.0f}"]
    for name in OTHERS:
        if name not in row["steps_s"]:
            cells += ["failed", "-"]
            continue
        logs = [math.log(theirs / ours) for theirs, ours in zip(row["steps_s"][name], row["steps_s"][CAPTURED])]
        middle, low, high = ratio_interval(logs)
        cells += [f"{statistics.median(row['steps_s'][name]) * 1e3:.3f} ms", f"{middle:.3f} [{low:.2f}, {high:.2f}]"]
    if "bytes_per_image" in row:
        least = row["batch"] * row["bytes_per_image"] / row["copy_bytes_per_s"]
        cells.append(f"{row['bytes_per_image'] / 1e6:.0f} MB/image at {row['copy_bytes_per_s'] / 1e12:.2f} TB/s: "
                     f"{least / captured:.0%} of it")
    else:
        cells.append("-")
    return "| " + " | ".join(cells) + " |"


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--rows", default="bf16:32,bf16:256,tf32:32,fp32:32", help="PRECISION:BATCH,...")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--warmup", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="what was measured, for --from; written after every row")
    parser.add_argument("--from", type=Path, dest="files", nargs="+", help="measure nothing, read these")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--python-device", default="cuda", choices=["cuda", "cpu"], help="cpu: to try this script out")
    parser.add_argument("--no-cuda-graph", action="store_true", help="likewise")
    parser.add_argument("--lockstep", default=str(ROOT / "build" / "lockstep"), help="the program")
    parser.add_argument("--lockstep-flag", action="append", default=[], help="passed on to lockstep bench")
    options = parser.parse_args()
    options.cells = []
    for cell in options.rows.split(","):
        precision, _, batch = cell.partition(":")
        if not precision or not batch.isdigit() or int(batch) == 0:
            parser.error(f"--rows wants PRECISION:BATCH,..., and '{cell}' is none")
        options.cells.append((precision, int(batch)))
    return options


def read_rows(files):
    rows = []
    for path in files:
        try:
            rows += json.loads(path.read_text())["rows"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            sys.exit(f"{path} is not what --json writes: {error}")
    return rows


def main():
    options = parse_options()
    print(table_head(), flush=True)
    rows = []
    if options.files:
        rows = read_rows(options.files)
        for row in rows:
            print(table_line(row))
    else:
        for precision, batch in options.cells:
            rows.append(measure(options, precision, batch))
            print(table_line(rows[-1]), flush=True)
            if options.json:
                options.json.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    verdicts = judge(rows)
    print("\n" + verdict_table(verdicts))
    return 1 if any(verdict.outcome == "FAILED" for verdict in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
