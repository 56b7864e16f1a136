#!/usr/bin/env python3
"""What overlap hides on a network of known speed: --overlap on against off, over two network namespaces.

  bench/overlap_table.py                          resnet50 and alexnet at 64x64, 1 and 5 Gbit/s
  bench/overlap_table.py --link 10gbit --repeats 8
  bench/overlap_table.py --strategy sharded
  bench/overlap_table.py --model resnet50:64:8,resnet50.pt2:8 --lockstep-flag=--kernels=aten
                                                       a network from a file beside the one that is built in

Two ranks of one thread, each in a network namespace of its own with one core, talk through Gloo over a link that the
kernel's token bucket filter limits in both directions: two hosts on one machine. A repetition is one launch with
overlap and one without, in turn. The step's ratio (over 1: overlap is faster) is the geometric mean over the
repetitions with a 95 % interval (Student's t on the logarithms).

Beside it, from the breakdowns on rank 0: what communication takes in all and what of it is exposed (medians over the
repetitions), without overlap (the same where nothing is hidden) and with it; and what the buckets' timeline of the last
repetition predicts for that: each bucket begins when its gradients are ready and the one before has been sent, and
takes as long as it did without overlap. All in milliseconds per step. The hosts are those of
tests/hosts/hosts.py. The output is a Markdown table.
"""

import argparse
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from strategy_table import median_step
from vs_python import ROOT, ratio_interval

sys.path.insert(0, str(ROOT / "tests/hosts"))
import hosts  # noqa: E402

PORT = 29400


def start(network, rank, command, core=None, per_host=1):
    """A rank on its host, of which each has `per_host`; on any core unless one is named."""
    host, local_rank = divmod(rank, per_host)
    environment = {**os.environ, "RANK": str(rank), "GROUP_RANK": str(host),
                   "WORLD_SIZE": str(per_host * len(network.names)), "LOCAL_RANK": str(local_rank),
                   "LOCAL_WORLD_SIZE": str(per_host), "MASTER_ADDR": network.address("h0"), "MASTER_PORT": str(PORT)}
    bound = [] if core is None else ["taskset", "-c", str(core)]
    return network.start(f"h{host}", [*bound, *command], env=environment, stdout=subprocess.DEVNULL,
                         stderr=subprocess.PIPE, text=True)


def launch(options, cell, network, overlap):
    """The record's run of one launch with a breakdown."""
    *shape, strategy = cell
    model, batch = shape[0], shape[-1]
    with tempfile.TemporaryDirectory(dir=hosts.SHARED) as folder:
        path = Path(folder) / "result.json"
        command = [
            options.lockstep, "bench", "--quiet", "--no-controls", "--breakdown", "--device", "cpu", "--model", model,
            *(["--image-size", shape[1]] if len(shape) == 3 else []), "--batch", batch, "--ranks", "2", "--threads",
            "1", "--bind", "none", "--strategy", strategy, "--overlap", overlap, "--steps", str(options.steps),
            "--warmup", str(options.warmup),
            *options.lockstep_flag,
        ]
        if strategy == "replicated":
            # One at a time, as the prediction has it.
            command += ["--in-flight", "1"]
        cores = sorted(os.sched_getaffinity(0))
        ranks = [start(network, 0, [*command, "--json", str(path)], cores[0]),
                 start(network, 1, command, cores[-1])]
        errors = [rank.communicate()[1] for rank in ranks]
        if any(rank.returncode for rank in ranks):
            sys.exit("lockstep failed:\n" + "\n".join(errors))
        (run,) = json.loads(path.read_text())["lockstep"]["runs"]
        return run


def exposed_ms(run):
    phases = run["breakdown"]["ranks"][0]["phases"]
    return 1000 * (phases["waiting_s"] + phases["transfer_s"])


def buckets_ms(run):
    return [1000 * (bucket["ended_s"] - bucket["started_s"]) for bucket in run["breakdown"]["ranks"][0]["buckets"]]


def predicted_ms(on, off):
    ready = [1000 * bucket["ready_s"] for bucket in on["breakdown"]["ranks"][0]["buckets"]]
    ended = 0
    for begin, took in zip(ready, buckets_ms(off)):
        ended = max(ended, begin) + took
    return ended - ready[-1]


def measure(options, cell, rate):
    network = hosts.Hosts(2, rate=rate)
    steps = {"off": [], "on": []}
    every = {"off": [], "on": []}
    try:
        for repetition in range(options.repeats):
            runs = {}
            for overlap in ("off", "on") if repetition % 2 == 0 else ("on", "off"):
                runs[overlap] = launch(options, cell, network, overlap)
                every[overlap].append(runs[overlap])
                steps[overlap].append(1000 * median_step(runs[overlap]))
            print(f"{cell[0]} {rate} {cell[-1]} repetition {repetition + 1}: "
                  + ", ".join(f"{name} {values[-1]:.0f} ms" for name, values in steps.items()), file=sys.stderr)
    finally:
        network.remove()
    return steps, every


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet50:64:8,alexnet:64:8", help="NAME:IMAGE_SIZE:BATCH, FILE.pt2:BATCH")
    parser.add_argument("--link", default="1gbit,5gbit", help="rates as tc writes them")
    parser.add_argument("--strategy", default="replicated", help="replicated, sharded")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--lockstep-flag", action="append", default=[], help="passed on to lockstep bench")
    parser.add_argument("--lockstep", default=str(ROOT / "build" / "lockstep"), help="the program")
    options = parser.parse_args()
    hosts.enter()

    print("| model | link | strategy | off, ms | on, ms | off / on | 95 % interval | communication | exposed, off "
          "| exposed, on | predicted |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    settings = [options.model.split(","), options.link.split(","), options.strategy.split(",")]
    for model, rate, strategy in itertools.product(*settings):
        cell = (*model.split(":"), strategy)
        steps, every = measure(options, cell, rate)
        off, on = ({key: statistics.median(of(run) for run in runs) for key, of in
                    (("all", lambda run: sum(buckets_ms(run))), ("exposed", exposed_ms))} for runs in every.values())
        ratio, low, high = ratio_interval([math.log(off / on) for off, on in zip(steps["off"], steps["on"])])
        print(f"| {Path(cell[0]).name} {' x '.join(cell[1:-1])} | {rate} | {strategy} "
              f"| {statistics.median(steps['off']):.0f} | {statistics.median(steps['on']):.0f} | {ratio:.3f} | {low:.3f} to {high:.3f} "
              f"| {off['all']:.0f} | {off['exposed']:.0f} | {on['exposed']:.0f} "
              f"| {predicted_ms(every['on'][-1], every['off'][-1]):.0f} |", flush=True)


if __name__ == "__main__":
    main()
