#!/usr/bin/env python3
"""Every input on the same network and machine, side by side: one table of input x model.

  bench/input_table.py                                     resnet50 at 224, alexnet and trivial, one rank
  bench/input_table.py --model trivial:32:256 --repeats 3  one network (NAME:IMAGE_SIZE:BATCH)
  bench/input_table.py --data FOLDER                       with the input dataset

A repetition is one launch of `lockstep bench` per input; their order turns round from one repetition to the next. Per
repetition the throughput of an input is divided by that of `device`; printed are the medians of the throughputs, the
ratios' geometric mean with a 95 % interval (Student's t on their logarithms), and the time that a step waited for its
batch: the mean over all steps, of the queue `staged`. `zmq` is fed by `lockstep feed` over ipc, beside the ranks.

Then what each input can do: images/s and GB/s of 8-bit pixels on `trivial`, whose step is short, as the most of its
repetitions, and as a share of what memcpy copies on this machine. Both tables are Markdown.
"""

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

from vs_python import ROOT, bench_runs, ratio_interval


def bench(options, cell, name, address):
    """One launch: images/s, and the queues of its input by their names."""
    model, size, batch = cell
    flags = ["--model", model, "--image-size", size, "--batch", batch, "--ranks", str(options.ranks), "--strategy",
             "single" if options.ranks == 1 else "ddp", "--input", name]
    if name == "dataset":
        flags += ["--data", options.data]
    if name == "zmq":
        flags += ["--address", address]
    if name in ("queue", "dataset", "zmq") and options.prefetch:
        flags += ["--prefetch", str(options.prefetch)]
    (run,) = bench_runs(options, *flags)
    return run["images_per_s"], {queue["name"]: queue for queue in run["input_queues"]}


def feed_and_bench(options, cell, name):
    if name != "zmq":
        return bench(options, cell, name, None)
    with tempfile.TemporaryDirectory() as folder:
        address = f"ipc://{folder}/batches"
        feed = subprocess.Popen(
            [options.lockstep, "feed", "--quiet", "--address", address, "--ranks", str(options.ranks), "--batch", cell[2],
             "--image-size", cell[1], "--classes", "10"], stdout=subprocess.DEVNULL)
        try:
            return bench(options, cell, name, address)
        finally:
            feed.terminate()
            feed.wait()


def waited_ms(queues):
    staged = queues.get("staged")
    return 1000 * staged["empty_s"] / staged["batches"] if staged and staged["batches"] else 0.0


def memcpy_gb_per_s(megabytes=64, repeats=15):
    source, target = bytearray(os.urandom(1 << 20) * megabytes), bytearray(megabytes << 20)
    fastest = math.inf
    for _ in range(repeats):
        begin = time.perf_counter()
        memoryview(target)[:] = source
        fastest = min(fastest, time.perf_counter() - begin)
    return len(source) / fastest / 1e9


def measure(options, cell, names):
    """By input: throughputs and waits of every repetition, and the queues of the fastest."""
    rates, waits, best = ({name: [] for name in names} for _ in range(3))
    for repetition in range(options.repeats):
        for name in names if repetition % 2 == 0 else names[::-1]:
            rate, queues = feed_and_bench(options, cell, name)
            if rate >= max(rates[name], default=0):
                best[name] = queues
            rates[name].append(rate)
            waits[name].append(waited_ms(queues))
        print(f"{cell[0]} repetition {repetition + 1}: "
              + ", ".join(f"{name} {values[-1]:.4g}" for name, values in rates.items()), file=sys.stderr)
    return rates, waits, best


def print_ratios(cells, found, names):
    print("| model | input | images/s | against device | 95 % interval | waited, ms per step |")
    print("|---|---|---|---|---|---|")
    for cell in cells:
        rates, waits, _ = found[cell]
        for name in names:
            logs = [math.log(own / device) for own, device in zip(rates[name], rates["device"])]
            ratio, low, high = ratio_interval(logs)
            between = f"{low:.3f} to {high:.3f}" if len(logs) > 1 and name != "device" else ""
            print(f"| {cell[0]} {cell[1]} x {cell[2]} | {name} | {statistics.median(rates[name]):.4g} "
                  f"| {ratio:.3f} | {between} | {statistics.median(waits[name]):.3f} |")


def print_highest(options, cell, names):
    rates, _, best = measure(options, cell, names)
    copied = memcpy_gb_per_s()
    channels = 3
    print(f"\n| input, on {cell[0]} {cell[1]} x {cell[2]} | images/s | GB/s | of memcpy's {copied:.1f} GB/s |")
    print("|---|---|---|---|")
    for name in names:
        images = max(rates[name])
        gigabytes = images * channels * int(cell[1]) ** 2 / 1e9
        print(f"| {name} | {images:.4g} | {gigabytes:.3f} | {100 * gigabytes / copied:.1f} % |", flush=True)
    for name, queues in best.items():
        for queue in queues.values():
            if queue["producer_s"]:
                print(f"{name}, {queue['name']}: {1000 * queue['producer_s']:.3f} ms of work per batch", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet50:224:16,alexnet:224:32,trivial:32:256", help="NAME:IMAGE_SIZE:BATCH")
    parser.add_argument("--highest", default="trivial:32:1024", help="what the highest rates are measured on; '' for none")
    parser.add_argument("--input", default="device,host,queue,zmq", help="device is always among them")
    parser.add_argument("--data", default="", help="folder of the input dataset, which is measured then too")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--prefetch", type=int, default=0)
    parser.add_argument("--lockstep", default=str(ROOT / "build" / "lockstep"), help="the program")
    parser.add_argument("--lockstep-flag", action="append", default=[], help="passed on to lockstep bench")
    options = parser.parse_args()

    names = ["device"] + [name for name in options.input.split(",") if name != "device"]
    if options.data and "dataset" not in names:
        names.append("dataset")
    cells = [tuple(cell.split(":")) for cell in options.model.split(",") if cell]
    found = {cell: measure(options, cell, names) for cell in cells}
    if cells:
        print_ratios(cells, found, names)
    if options.highest:
        print_highest(options, tuple(options.highest.split(":")), names)


if __name__ == "__main__":
    main()
