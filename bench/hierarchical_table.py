#!/usr/bin/env python3
"""What a hierarchical all-reduce gains over a flat one: --hierarchical beside the default, on hosts with links.

  bench/hierarchical_table.py                             alexnet at 64x64, 2 hosts of 2 ranks, 1 Gbit/s
  bench/hierarchical_table.py --strategy ddp,bsp --link 5gbit
  bench/hierarchical_table.py --hosts 3 --per-host 2 --model resnet50:64:4

Ranks of one thread, --per-host on each of the hosts of tests/hosts/hosts.py, which share this machine's cores, talk
through Gloo over links that the kernel's token bucket filter limits in both directions. A repetition is one launch of
each, in turn. The ratio of the step times (below 1: hierarchical is faster) is the geometric mean over the repetitions
with a 95 % interval (Student's t on the logarithms). A ring of all ranks crosses a link with 2 (N - 1) / N of the
gradients, one of a rank per host with 2 (H - 1) / H: with transfers alone the ratio would be that of the two, the
column "links alone". The output is a Markdown table.
"""

import argparse
import itertools
import json
import math
import statistics
import sys
import tempfile
from pathlib import Path

from overlap_table import hosts, start
from strategy_table import median_step
from vs_python import ROOT, ratio_interval


def launch(options, model, strategy, network, flags):
    """Milliseconds of a step, the median of one launch."""
    name, size, batch = model.split(":")
    ranks = options.hosts * options.per_host
    with tempfile.TemporaryDirectory(dir=hosts.SHARED) as folder:
        path = Path(folder) / "result.json"
        command = [options.lockstep, "bench", "--quiet", "--no-controls", "--device", "cpu", "--model", name,
                   "--image-size", size, "--batch", batch, "--ranks", str(ranks), "--threads", "1", "--bind", "none",
                   "--strategy", strategy, "--steps", str(options.steps), "--warmup", str(options.warmup), *flags]
        started = [start(network, rank, [*command, *(["--json", str(path)] if rank == 0 else [])],
                         per_host=options.per_host) for rank in range(ranks)]
        errors = [process.communicate()[1] for process in started]
        if any(process.returncode for process in started):
            sys.exit("lockstep failed:\n" + "\n".join(errors))
        (run,) = json.loads(path.read_text())["lockstep"]["runs"]
        return 1000 * median_step(run)


def measure(options, model, rate, strategy):
    network = hosts.Hosts(options.hosts, rate=rate)
    steps = {"": [], "--hierarchical": []}
    try:
        for repetition in range(options.repeats):
            for flag in list(steps) if repetition % 2 == 0 else reversed(steps):
                steps[flag].append(launch(options, model, strategy, network, flag.split()))
            print(f"{model} {rate} {strategy} repetition {repetition + 1}: "
                  + ", ".join(f"{flag or 'flat'} {values[-1]:.0f} ms" for flag, values in steps.items()),
                  file=sys.stderr)
    finally:
        network.remove()
    return steps.values()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="alexnet:64:8", help="NAME:IMAGE_SIZE:BATCH")
    parser.add_argument("--link", default="1gbit", help="rates as tc writes them")
    parser.add_argument("--strategy", default="replicated")
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--per-host", type=int, default=2)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--lockstep", default=str(ROOT / "build" / "lockstep"), help="the program")
    options = parser.parse_args()
    hosts.enter()
    ranks = options.hosts * options.per_host
    alone = (1 - 1 / options.hosts) / (1 - 1 / ranks)
    print("| model | link | hosts x ranks | strategy | flat, ms | hierarchical, ms | ratio | 95 % interval | links alone |")
    print("|---|---|---|---|---|---|---|---|---|")
    for model, rate, strategy in itertools.product(*(text.split(",") for text in (options.model, options.link,
                                                                                 options.strategy))):
        flat, hierarchical = measure(options, model, rate, strategy)
        ratio, low, high = ratio_interval([math.log(new / old) for old, new in zip(flat, hierarchical)])
        print(f"| {model} | {rate} | {options.hosts} x {options.per_host} | {strategy} | {statistics.median(flat):.0f} "
              f"| {statistics.median(hierarchical):.0f} | {ratio:.3f} | {low:.3f} to {high:.3f} | {alone:.3f} |",
              flush=True)


if __name__ == "__main__":
    main()
