#!/usr/bin/env python3
"""How well every synchronous strategy learns: trains on real data with each of them, on 1, 2 and 4 ranks.

  bench/accuracy_table.py --choose            which rate and weight decay: single, without the evaluation samples
  bench/accuracy_table.py                     lenet5 on data/digits, 3 seeds, 20 epochs each
  bench/accuracy_table.py --strategy ddp,bsp  some strategies; single is always among them
  bench/accuracy_table.py --backend mpi       over another backend
  bench/accuracy_table.py --strategy "local_sgd 8,local_sgd DiLoCo,replicated powersgd:1" --ranks 2
                                              what other steps than those of one rank learn

The batch of all ranks together is the same everywhere, so that all of them compute the same, but for rounding: what
is left between two of them is noise. --choose evaluates on every fifth training sample and learns from the others, so
that the evaluation samples have no say in the settings that they judge. Two Markdown tables are printed: the accuracy on the evaluation samples after
the last epoch (mean over the seeds, and the lowest and highest), and its mean after every epoch. The exit code is 1
where a mean is further from single's than the seeds are from each other: 3 standard errors of the difference, and at
least 1 percentage point.
"""

import argparse
import itertools
import json
import statistics
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STRATEGIES = {
    "ddp": [], "replicated": [], "sharded": [], "parameter_server": [], "horovod": [], "data_parallel": [],
    "bsp cdd": ["--bsp-sync", "cdd"], "bsp avg": ["--bsp-sync", "avg"],
}
# These take other steps than one rank, so their table says what that costs; they are measured where they are named.
OTHER_STEPS = {
    **{f"local_sgd {every}": ["--sync-every", str(every)] for every in (1, 8, 64)},
    "local_sgd DiLoCo": ["--sync-every", "8", "--outer-lr", "0.7", "--outer-momentum", "0.9"],
    **{f"replicated powersgd:{rank}": ["--wire", f"powersgd:{rank}"] for rank in (1, 4)},
    "replicated SyncBN": ["--sync-batch-norm"],
}
# Standard errors, and percentage points.
MOST_ERRORS = 3
LEAST_POINTS = 1
CHOICE = {"lr": (0.02, 0.05, 0.1), "weight_decay": (0.001, 0.005, 0.01, 0.02)}
HELD_BACK = 5


def accuracies(options, strategy, ranks, seed):
    """In percent, by epoch."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "training.json"
        command = [
            options.lockstep, "train", "--quiet", "--device", "cpu", "--json", str(path), "--model", options.model,
            "--data", str(Path(options.data).resolve()), "--eval", "--strategy", strategy.split()[0],
            *STRATEGIES.get(strategy, OTHER_STEPS.get(strategy, [])), "--ranks", str(ranks), "--backend", options.backend, "--threads", "1",
            "--bind", "none", "--global-batch", str(options.global_batch), "--epochs", str(options.epochs), "--lr",
            str(options.lr), "--weight-decay", str(options.weight_decay), "--schedule", "cosine", "--seed", str(seed),
        ]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=folder)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
        return [100 * epoch["evaluation_accuracy"] for epoch in json.loads(path.read_text())["epochs"]]


def is_noise(own, base):
    """Whether two lists of last accuracies have means that the seeds' spread explains."""
    error = 0.0
    if len(own) > 1:
        error = ((statistics.variance(own) + statistics.variance(base)) / len(own)) ** 0.5
    difference = abs(statistics.mean(own) - statistics.mean(base))
    return difference <= max(MOST_ERRORS * error, LEAST_POINTS)


def idx_part(data, keep):
    """The samples of an IDX file whose index keep() takes."""
    (magic, count), dimensions = struct.unpack(">II", data[:8]), data[3] - 1
    start = 8 + 4 * dimensions
    size = (len(data) - start) // count
    kept = [data[start + index * size:start + (index + 1) * size] for index in range(count) if keep(index)]
    return struct.pack(">II", magic, len(kept)) + data[8:start] + b"".join(kept)


def choose(options):
    """Prints the accuracy of every rate and decay on training samples that were held back."""
    print("| rate | weight decay | accuracy, % | lowest to highest |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("images-idx3-ubyte", "labels-idx1-ubyte"):
            data = (Path(options.data) / f"train-{kind}").read_bytes()
            for name, own in (("t10k", True), ("train", False)):
                part = idx_part(data, lambda index, own=own: (index % HELD_BACK == HELD_BACK - 1) == own)
                (Path(folder) / f"{name}-{kind}").write_bytes(part)
        for rate, decay in itertools.product(CHOICE["lr"], CHOICE["weight_decay"]):
            trial = argparse.Namespace(**{**vars(options), "data": folder, "lr": rate, "weight_decay": decay})
            last = [accuracies(trial, "single", 1, seed + 1)[-1] for seed in range(options.seeds)]
            print(f"| {rate} | {decay} | {statistics.mean(last):.2f} | {min(last):.2f} to {max(last):.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--choose", action="store_true", help="only this; the data must be IDX files")
    parser.add_argument("--model", default="lenet5")
    parser.add_argument("--data", default=str(ROOT / "data" / "digits"))
    parser.add_argument("--strategy", default=",".join(STRATEGIES), help="a comma between two")
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--backend", default="gloo")
    parser.add_argument("--global-batch", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--weight-decay", type=float, default=0.01)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--lockstep", default=str(ROOT / "build" / "lockstep"), help="the program")
    options = parser.parse_args()
    known = [*STRATEGIES, *OTHER_STEPS]
    unknown = set(options.strategy.split(",")) - set(known)
    if unknown:
        parser.error(f"no such strategy here: {', '.join(sorted(unknown))}; there are {', '.join(known)}")

    if options.choose:
        choose(options)
        return 0

    cells = [("single", 1)]
    cells += [(name, int(ranks)) for name in options.strategy.split(",") for ranks in options.ranks.split(",")]
    curves = {}
    for strategy, ranks in cells:
        curves[strategy, ranks] = [accuracies(options, strategy, ranks, seed + 1) for seed in range(options.seeds)]
        last = [f"{curve[-1]:.2f}" for curve in curves[strategy, ranks]]
        print(f"{strategy} {ranks}: {', '.join(last)}", file=sys.stderr)

    last = {cell: [curve[-1] for curve in runs] for cell, runs in curves.items()}
    base = last["single", 1]
    strangers = [cell for cell, own in last.items() if cell[0] not in OTHER_STEPS and not is_noise(own, base)]
    print("| strategy | ranks | accuracy, % | lowest to highest | against single, points |")
    print("|---|---|---|---|---|")
    for (strategy, ranks), own in last.items():
        mean = statistics.mean(own)
        print(f"| {strategy} | {ranks} | {mean:.2f} | {min(own):.2f} to {max(own):.2f} "
              f"| {mean - statistics.mean(base):+.2f} |")
    epochs = range(options.epochs)
    print()
    print("| strategy, ranks | " + " | ".join(str(epoch + 1) for epoch in epochs) + " |")
    print("|---" * (options.epochs + 1) + "|")
    for (strategy, ranks), runs in curves.items():
        means = [statistics.mean(run[epoch] for run in runs) for epoch in epochs]
        print(f"| {strategy}, {ranks} | " + " | ".join(f"{mean:.1f}" for mean in means) + " |")
    for strategy, ranks in strangers:
        print(f"{strategy} on {ranks} ranks differs from single by more than noise", file=sys.stderr)
    return 1 if strangers else 0


if __name__ == "__main__":
    sys.exit(main())
