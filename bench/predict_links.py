#!/usr/bin/env python3
"""Predictions beside measurements on links of known speed: from 1 and 2 ranks to 3 and 4, in network namespaces.

  bench/predict_links.py                            resnet50 and alexnet at 64x64, gloo and mpi, 1, 5, 10 Gbit/s
  bench/predict_links.py --link 1gbit --backend gloo --model alexnet:64:8
  bench/predict_links.py --csv rows.csv             append a line per prediction
  bench/predict_links.py --table rows.csv                the table of such a file, without measuring

Every rank is on a host of its own (tests/hosts/hosts.py), with one thread, behind a link that the kernel's token bucket
filter limits in both directions. One rank alone and two ranks as ddp are
measured with their breakdown, `lockstep predict --per-host` takes it from there, and the larger numbers are measured.
The hosts share this machine's cores, so their number is given as ranks that share a host. Each number is measured
--repeats times, and the middle one counts. Beside it stands what plain sockets give when all ranks send at once
(`lockstep collectives`): a share far below 1 says that the cores cannot drive so many such links, which no prediction
from two ranks can know. Needs a machine that lets the user make namespaces, `ip` and `tc`. The output is a Markdown
table.
"""

import argparse
import csv
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from overlap_table import hosts, start
from vs_python import ROOT

COLUMNS = ["model", "backend", "link", "ranks", "predicted", "low", "high", "measured", "of_link"]


def gbit_of(link):
    """1 of "1gbit", 0.5 of "500mbit"."""
    for unit, size in (("gbit", 1), ("mbit", 1e-3)):
        if link.endswith(unit):
            return float(link.removesuffix(unit)) * size
    sys.exit(f"--link takes rates in gbit or mbit, not '{link}'")


def launch_over(network, backend, command, path):
    """Runs a command of lockstep with a rank on every host; returns what it wrote to `path`."""
    if backend == "mpi":
        launch = network.start("h0", mpirun(network, [*command, "--json", path]), stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
        started = [launch]
    else:
        started = [start(network, rank, [*command, *(["--json", path] if rank == 0 else [])])
                   for rank in range(len(network.names))]
    texts = [process.communicate()[1] for process in started]
    errors = [text for process, text in zip(started, texts) if process.returncode]
    if errors:
        sys.exit("lockstep failed:\n" + "\n".join(errors))
    return json.loads(Path(path).read_text())


def mpirun(network, command):
    """mpirun on the first host, a rank on each."""
    settings = {"plm_rsh_agent": f"{hosts.__file__} ssh", "btl": "tcp,self"}
    words = [word for name, value in settings.items() for word in ("--mca", name, value)]
    return ["mpirun", "--allow-run-as-root", "-np", str(len(network.names)), "--host",
            ",".join(f"{name}:1" for name in network.names), "--bind-to", "none", *words, *command]


def bench(options, model, backend, link, ranks, folder):
    """The record of the middle one of the launches."""
    name, size, batch = model.split(":")
    command = [options.lockstep, "bench", "--quiet", "--no-controls", "--breakdown", "--device", "cpu", "--model", name,
               "--image-size", size, "--batch", batch, "--ranks", str(ranks), "--threads", "1", "--bind", "none",
               "--backend", backend, "--strategy", "single" if ranks == 1 else "ddp", "--steps", str(options.steps),
               "--warmup", str(options.warmup), "--force"]
    network = hosts.Hosts(ranks, rate=link)
    try:
        records = [launch_over(network, backend, command, f"{folder}/{ranks}.json")
                   for _ in range(options.repeats)]
        return sorted(records, key=rate)[len(records) // 2]
    finally:
        network.remove()


def rate(record):
    return record["lockstep"]["runs"][0]["images_per_s"]


def share_of_link(options, link, ranks, folder):
    """What plain sockets give where every rank sends to the next, over what the link should give."""
    network = hosts.Hosts(ranks, rate=link)
    try:
        found = launch_over(network, "gloo", [options.lockstep, "collectives", "--quiet", "--ranks", str(ranks),
                                            "--threads", "1", "--bind", "none", "--sizes", "8B", "--min-time", "0.1",
                                            "--force"], f"{folder}/link.json")
        return found["links"][0]["gb_per_s"] * 8 / gbit_of(link)
    finally:
        network.remove()


def predict(options, records, folder):
    """{ranks: prediction} from the rows of these records together."""
    merged = records[0]
    merged["lockstep"]["runs"] = [run for record in records for run in record["lockstep"]["runs"]]
    path = Path(folder) / "measured.json"
    path.write_text(json.dumps(merged))
    most = options.ranks.split(",")[-1]
    output = subprocess.run([options.lockstep, "predict", path, "--strategy", "ddp", "--ranks", options.ranks,
                             "--per-host", most, "--json"], capture_output=True, text=True, check=True).stdout
    return {row["ranks"]: row for row in json.loads(output)["jobs"][0]["predictions"]}


def measure(options, model, backend, link):
    with tempfile.TemporaryDirectory(dir=hosts.SHARED) as folder:
        predicted = predict(options, [bench(options, model, backend, link, ranks, folder) for ranks in (2, 1)], folder)
        for ranks, row in predicted.items():
            yield {"model": model, "backend": backend, "link": link, "ranks": ranks, "predicted": row["images_per_s"],
                   "low": row["low"], "high": row["high"],
                   "measured": rate(bench(options, model, backend, link, ranks, folder)),
                   "of_link": share_of_link(options, link, ranks, folder)}
        if options.keep:
            Path(f"{options.keep}-{model.split(':')[0]}-{backend}-{link}.json").write_text(
                (Path(folder) / "measured.json").read_text())


def print_table(rows):
    print("| network | backend | link | ranks | predicted, images/s | 90 % interval | measured | error | of the link |")
    print("|---|---|---|---|---|---|---|---|---|")
    errors = []
    for row in rows:
        predicted, low, high, measured, of_link = (float(row[name]) for name in COLUMNS[4:])
        errors.append(abs(predicted / measured - 1))
        print(f"| {row['model']} | {row['backend']} | {row['link']} | {row['ranks']} | {predicted:.1f} | {low:.1f} to "
              f"{high:.1f} | {measured:.1f} | {100 * (predicted / measured - 1):+.1f} % | {100 * of_link:.0f} % |")
    covered = sum(float(row["low"]) <= float(row["measured"]) <= float(row["high"]) for row in rows)
    print(f"\n{len(rows)} predictions: median error {100 * statistics.median(errors):.1f} %, worst "
          f"{100 * max(errors):.1f} %, {covered} within their intervals")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet50:64:8,alexnet:64:8", help="NAME:IMAGE_SIZE:BATCH")
    parser.add_argument("--backend", default="gloo,mpi")
    parser.add_argument("--link", default="1gbit,5gbit,10gbit", help="rates in gbit or mbit, as tc writes them")
    parser.add_argument("--ranks", default="3,4", help="numbers to predict")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--csv", help="append the rows to this file")
    parser.add_argument("--keep", help="keep what was predicted from, in files that begin so")
    parser.add_argument("--table", help="print the table of such a file, and measure nothing")
    parser.add_argument("--lockstep", default=str(ROOT / "build" / "lockstep"), help="the program")
    options = parser.parse_args()
    if options.table:
        with open(options.table, encoding="utf-8") as file:
            return print_table(list(csv.DictReader(file)))
    for link in options.link.split(","):
        gbit_of(link)
    hosts.enter()
    rows = []
    for model, backend, link in itertools.product(*(text.split(",") for text in (options.model, options.backend,
                                                                                options.link))):
        for row in measure(options, model, backend, link):
            rows.append(row)
            print(row, file=sys.stderr, flush=True)
            if options.csv:
                new = not Path(options.csv).exists()
                with open(options.csv, "a", newline="", encoding="utf-8") as file:
                    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                    if new:
                        writer.writeheader()
                    writer.writerow(row)
    print_table(rows)


if __name__ == "__main__":
    main()
