#!/usr/bin/env python3
"""lockstep against Python PyTorch on one GPU, in turn, and whether that is what lockstep promises.

  bench/gpu_vs_python.py                             resnet50, batch 32 and 256 in bf16, batch 32 in tf32 and fp32
  bench/gpu_vs_python.py --rows bf16:32 --repeats 9 --json bf16.json
  bench/gpu_vs_python.py --from bf16.json            what was measured there, shown and judged again

Each repetition runs lockstep (replicated over nccl, one rank) captured, eager, and captured with --kernels fused, and
Python as eager DistributedDataParallel with one rank: each in a process of its own, because cuDNN chooses its
algorithms once per process, anew in every one. torch.compile(mode="max-autotune"), which records CUDA graphs, compiles
for minutes: it is one process that was warmed up before the first repetition and sleeps between its turns, so its
spread lacks that choice. The order turns from one repetition to the next.

Printed as Markdown: median steps with their spread (half the range of the repetitions), images per second, for each
variant its step / lockstep's captured step (over 1: lockstep is faster) with 95 % intervals (Student's t on the
logarithms of the repetitions' ratios), the bytes that the network's operations move per image when none are fused
(bench/python/step_bytes.py; fused kernels move fewer), and every promise (bench/gpu_promises.py).

Exit code 1 when a promise is broken or a variant failed. Wants a GPU and a Python with torch and torchvision.
"""

import argparse
import dataclasses
import json
import math
import os
import statistics
import subprocess
import sys
from pathlib import Path

from gpu_promises import CAPTURED, COMPILED, DDP, EAGER, NO, OWN, judge, verdict_table
from vs_python import ROOT, bench_runs, ratio_interval

OTHERS = [EAGER, OWN, DDP, COMPILED]
# What --without calls them.
SHORT = {"eager": EAGER, "own": OWN, "ddp": DDP, "compile": COMPILED}


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


def lockstep_step(options, precision, batch, flags):
    """The median step; None where lockstep failed, which has said why."""
    flags = ["--model", options.model, "--batch", str(batch), "--image-size", str(options.image_size), "--ranks", "1",
             "--strategy", "replicated", "--precision", precision, *flags]
    if not any(flag.startswith("--device") for flag in options.lockstep_flag):
        flags += ["--device", "cuda"]
    try:
        (run,) = [run for run in bench_runs(options, *flags) if run["strategy"] == "replicated"]
    except SystemExit as failure:
        print(failure, file=sys.stderr, flush=True)
        return None
    return statistics.median(max(step) for step in run["samples"])


def python_step(options, precision, batch, row):
    """The median step of eager Python, in a process of its own, which also tells the row what it ran on."""
    python = Python(options, precision, batch, "ddp")
    try:
        facts = python.read("copy_bytes_per_s")
        if facts is None:
            return None
        row.update({key: facts[key] for key in ("gpu", "torch", "copy_bytes_per_s", "bytes_per_image")})
        return python.measure()
    finally:
        python.end()


def jobs_of(options, precision, batch, row, compiled):
    """What a repetition runs, by name."""
    graph = [] if options.no_cuda_graph else ["--cuda-graph"]
    jobs = {CAPTURED: lambda: lockstep_step(options, precision, batch, graph),
            EAGER: lambda: lockstep_step(options, precision, batch, []),
            OWN: lambda: lockstep_step(options, precision, batch, [*graph, "--kernels", "fused"]),
            DDP: lambda: python_step(options, precision, batch, row)}
    if compiled is not None:
        jobs[COMPILED] = compiled.measure
    return {name: job for name, job in jobs.items() if name not in options.without}


def measure(options, precision, batch, keep):
    """A row: the medians of every repetition's steps. keep(row) is called after each of them."""
    row = {"model": options.model, "image_size": options.image_size, "precision": precision, "batch": batch,
           "without": options.without, "steps_s": {}}
    compiled = None if COMPILED in options.without else Python(options, precision, batch, "compiled")
    try:
        # Compiling takes the processors, so nothing is measured meanwhile.
        if compiled is not None and compiled.read("copy_bytes_per_s") is None:
            print(f"{precision} {batch} {COMPILED}: Python failed, its message is above", file=sys.stderr, flush=True)
            compiled.end()
            compiled = None
        jobs = jobs_of(options, precision, batch, row, compiled)
        row["steps_s"] = {name: [] for name in jobs}
        for repetition in range(options.repeats):
            order = list(jobs)
            shift = repetition % len(order)
            for name in order[shift:] + order[:shift]:
                step_s = jobs[name]()
                if step_s is None:
                    print(f"{precision} {batch} {name}: failed", file=sys.stderr, flush=True)
                    del jobs[name], row["steps_s"][name]
                    continue
                row["steps_s"][name].append(step_s)
                print(f"{precision} {batch} {name}: {step_s * 1e3:.3f} ms", file=sys.stderr, flush=True)
                keep(row)
            if not jobs:
                break
    finally:
        if compiled is not None:
            compiled.end()
    return row


def timed(steps_s):
    """Milliseconds, with half the range of the repetitions."""
    middle = statistics.median(steps_s)
    return f"{middle * 1e3:.3f} ms ±{(max(steps_s) - min(steps_s)) / 2 / middle:.1%}"


def table_head():
    return ("| precision | batch | captured | images/s | " + " | ".join(f"{name} | / captured" for name in OTHERS)
            + " | unfused operations move |\n" + "|---" * (5 + 2 * len(OTHERS)) + "|")


def table_line(row):
    steps_s = row["steps_s"]
    cells = [row["precision"], str(row["batch"])]
    captured = steps_s.get(CAPTURED)
    cells += [timed(captured), f"{row['batch'] / statistics.median(captured):.0f}"] if captured else ["failed", "-"]
    for name in OTHERS:
        if not steps_s.get(name):
            cells += ["-", "-"]
            continue
        logs = [math.log(theirs / ours) for theirs, ours in zip(steps_s[name], captured or [])]
        ratio = "{:.3f} [{:.2f}, {:.2f}]".format(*ratio_interval(logs)) if logs else "-"
        cells += [timed(steps_s[name]), ratio]
    cells.append(f"{row['bytes_per_image'] / 1e6:.0f} MB/image" if "bytes_per_image" in row else "-")
    return "| " + " | ".join(cells) + " |"


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--rows", default="bf16:32,bf16:256,tf32:32,fp32:32", help="PRECISION:BATCH,...")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--warmup", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="what was measured, for --from; written after every step of a repetition")
    parser.add_argument("--verdicts-json", action="store_true", help="the promises once more, as a line of JSON")
    parser.add_argument("--without", default="", help=f"leave out some of {','.join(SHORT)}")
    parser.add_argument("--from", type=Path, dest="files", nargs="+", help="measure nothing, read these")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--python-device", default="cuda", choices=["cuda", "cpu"], help="cpu: to try this script out")
    parser.add_argument("--no-cuda-graph", action="store_true", help="likewise")
    parser.add_argument("--lockstep", default=str(ROOT / "build" / "lockstep"), help="the program")
    parser.add_argument("--lockstep-flag", action="append", default=[], help="passed on to lockstep bench")
    options = parser.parse_args()
    for name in filter(None, options.without.split(",")):
        if name not in SHORT:
            parser.error(f"--without knows {', '.join(SHORT)}, and not '{name}'")
    options.without = [SHORT[name] for name in filter(None, options.without.split(","))]
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
        def keep(row):
            if options.json:
                options.json.write_text(json.dumps({"rows": [*rows, row]}, indent=1) + "\n")

        for precision, batch in options.cells:
            rows.append(measure(options, precision, batch, keep))
            print(table_line(rows[-1]), flush=True)
    verdicts = judge(rows)
    print("\n" + verdict_table(verdicts))
    if options.verdicts_json:
        print(json.dumps([dataclasses.asdict(verdict) for verdict in verdicts]))
    failed = any(name not in row["steps_s"] for row in rows for name in [CAPTURED, *OTHERS]
                 if name not in options.without and not options.files)
    return 1 if failed or any(verdict.holds == NO for verdict in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
