#!/usr/bin/env python3
"""How well `lockstep predict --what-if` foresees what changes bring, predicted beside measured.

  bench/what_if_table.py FOLDER                    30 changes of six jobs; their results stay in FOLDER
  bench/what_if_table.py FOLDER --job alexnet      one of them; the table has all that FOLDER holds
  bench/what_if_table.py FOLDER --links            42 of six others, over links of known speed (bench/on_link.py)

Each job is measured once with a breakdown, on 1 and 2 ranks of one thread, and one rank alone with a second batch
(`bench --append`). `predict --verify` then launches the job and its changes in turn. The output is a Markdown table and
what the requirement counts: signs that are right (a gain below 1 % counts as none), and gains within 5 points; apart
for changes of what ranks exchange, and of what they compute (batch, ranks), where a machine's drift decides.
"""

import argparse
import json
import subprocess
from pathlib import Path

from vs_python import ROOT

# Network, strategy, batches (the second one alone), other flags, number of ranks, changes; a link.
JOBS = {
    "lenet5": ("lenet5", "ddp", (32, 64), [], 2, "bucket=0.1,batch=64,wire=bf16,strategy=replicated,ranks=1"),
    "resnet18": ("resnet18", "ddp", (8, 16), ["--image-size", "64"], 2,
                 "bucket=1,batch=16,wire=bf16,strategy=sharded,ranks=1"),
    "alexnet": ("alexnet", "ddp", (16, 32), ["--image-size", "64"], 2,
                "bucket=100,batch=32,wire=bf16,strategy=sharded,ranks=1"),
    "resnet20": ("resnet20", "replicated", (32, 64), [], 2, "bucket=0.1,batch=64,wire=bf16,strategy=ddp,ranks=1"),
    "mlp": ("mlp", "ddp", (32, 128), ["--backend", "mpi"], 2,
            "bucket=1,batch=128,wire=bf16,strategy=parameter_server,ranks=1"),
    "resnet50": ("resnet50", "sharded", (4, 8), ["--image-size", "64"], 1,
                 "ranks=2,batch=8,bucket=5,strategy=ddp,strategy=replicated"),
}
LINKS = {
    f"{network}-{strategy}-{link}": (
        network, strategy, (batch, 2 * batch), ["--image-size", "64"], 2,
        f"bucket=5,bucket=100,strategy={'ddp' if strategy == 'replicated' else 'replicated'},strategy=sharded,wire=bf16,"
        f"batch={2 * batch},ranks=1", link)
    for network, strategy, batch, link in [
        ("resnet18", "ddp", 8, "2gbit"), ("resnet18", "replicated", 8, "1gbit"), ("googlenet", "ddp", 8, "1gbit"),
        ("resnet34", "ddp", 8, "2gbit"), ("resnet50", "ddp", 8, "2gbit"), ("alexnet", "ddp", 16, "2gbit")]
}
ALL = JOBS | LINKS


def run(command):
    finished = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if finished.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))} ended with {finished.returncode}:\n{finished.stderr}")


def measure(options, name):
    network, strategy, (batch, other), flags, ranks, changes, *link = ALL[name]
    lockstep = [*([ROOT / "bench/on_link.py", *link] if link else []), options.lockstep]
    record, result = options.folder / f"{name}.run.json", options.folder / f"{name}.json"
    bench = [*lockstep, "bench", "--model", network, *flags, "--threads", 1, "--max-time", options.seconds,
             "--quiet", "--json", record]
    record.unlink(missing_ok=True)
    run([*bench, "--strategy", strategy, "--batch", batch, "--ranks", "1,2", "--breakdown"])
    run([*bench, "--strategy", "single", "--batch", other, "--ranks", 1, "--append"])
    run([*lockstep, "predict", record, "--batch", batch, "--strategy", strategy, "--ranks", ranks, "--what-if",
         changes, "--verify", "--rounds", options.rounds, "--row-time", options.seconds, "--json", result,
         "--force"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--job", action="append", choices=ALL, help="a job to measure, may be given again")
    parser.add_argument("--links", action="store_true", help="the jobs over links, where no --job is named")
    parser.add_argument("--rounds", type=int, default=3, help="launches of each side [3]")
    parser.add_argument("--seconds", type=float, default=3, help="longest time of a row [3]")
    parser.add_argument("--lockstep", default=ROOT / "build/lockstep")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.job or (LINKS if options.links else JOBS):
        measure(options, name)

    print("| job | change | predicted | measured | 95 % interval | sign | within 5 points |")
    print("|---|---|---|---|---|---|---|")
    counts = {"exchange": [0, 0, 0], "compute": [0, 0, 0]}
    for name, (network, strategy, (batch, _), flags, ranks, _, *link) in ALL.items():
        result = options.folder / f"{name}.json"
        if not result.exists():
            continue
        job = f"{' '.join([network, strategy, *flags])}, batch {batch}, ranks {ranks}{''.join(f', {rate}' for rate in link)}"
        for change in json.loads(result.read_text())["jobs"][0]["verification"]["changes"]:
            if change["measured_gain"] is None:
                print(f"| {job} | {change['change']} | {change['predicted_gain']:+.1%} | {change['missing']} | | | |")
                continue
            predicted, measured = change["predicted_gain"], change["measured_gain"]
            signs = [(gain > 0.01) - (gain < -0.01) for gain in (predicted, measured)]
            same, near = signs[0] == signs[1], abs(predicted - measured) <= 0.05
            kind = "compute" if change["change"].startswith(("batch=", "ranks=")) else "exchange"
            counts[kind] = [count + more for count, more in zip(counts[kind], (1, same, near))]
            interval = "" if change["low"] is None else f"{change['low']:+.1%} to {change['high']:+.1%}"
            print(f"| {job} | {change['change']} | {predicted:+.1%} | {measured:+.1%} | {interval} | "
                  f"{'right' if same else 'wrong'} | {'yes' if near else 'no'} |")
    for kind, (changes, right, met) in counts.items():
        print(f"\n{changes} changes of what ranks {kind}: the sign is right in {right}, the gain within 5 points in {met}.")


if __name__ == "__main__":
    main()
