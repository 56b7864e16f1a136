#!/usr/bin/env python3
"""How well every synchronous strategy learns: trains on real data with each of them, on 1, 2 and 4 ranks.

  bench/accuracy_table.py                     lenet5 on data/digits, 3 seeds, 10 epochs each
  bench/accuracy_table.py --strategy ddp,bsp  some strategies; single is always among them
  bench/accuracy_table.py --backend mpi       over another backend

The batch of all ranks together is the same everywhere, so that all of them compute the same, but for rounding: what
is left between two of them is noise. Two Markdown tables are printed: the accuracy on the evaluation samples after
the last epoch (mean over the seeds, and the lowest and highest), and its mean after every epoch. The exit code is 1
where a mean is further from single's than the seeds are from each other: 3 standard errors of the difference, and at
least 1 percentage point.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STRATEGIES = {
    "ddp": [], "replicated": [], "sharded": [], "parameter_server": [], "horovod": [],
    "bsp cdd": ["--bsp-sync", "cdd"], "bsp avg": ["--bsp-sync", "avg"],
}
# Standard errors, and percentage points.
MOST_ERRORS = 3
LEAST_POINTS = 2


def accuracies(options, strategy, ranks, seed):
    """In percent, by epoch."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "training.json"
        command = [
            options.lockstep, "train", "--quiet", "--json", str(path), "--model", options.model, "--data",
            str(Path(options.data).resolve()), "--eval", "--strategy", strategy.split()[0],
            *STRATEGIES.get(strategy, []), "--ranks", str(ranks), "--backend", options.backend, "--threads", "1",
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="lenet5")
    parser.add_argument("--data", default=str(ROOT / "data" / "digits"))
    parser.add_argument("--strategy", default=",".join(STRATEGIES), help="a comma between two")
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--backend", default="gloo")
    parser.add_argument("--global-batch", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--weight-decay", type=float, default=0.01)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--lockstep", default=str(ROOT / "build" / "lockstep"), help="the program")
    options = parser.parse_args()
    unknown = set(options.strategy.split(",")) - set(STRATEGIES)
    if unknown:
        parser.error(f"no such strategy here: {', '.join(sorted(unknown))}; there are {', '.join(STRATEGIES)}")

    cells = [("single", 1)]
    cells += [(name, int(ranks)) for name in options.strategy.split(",") for ranks in options.ranks.split(",")]
    curves = {}
    for strategy, ranks in cells:
        curves[strategy, ranks] = [accuracies(options, strategy, ranks, seed + 1) for seed in range(options.seeds)]
        last = [f"{curve[-1]:.2f}" for curve in curves[strategy, ranks]]
        print(f"{strategy} {ranks}: {', '.join(last)}", file=sys.stderr)

    last = {cell: [curve[-1] for curve in runs] for cell, runs in curves.items()}
    base = last["single", 1]
    strangers = [cell for cell, own in last.items() if not is_noise(own, base)]
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
