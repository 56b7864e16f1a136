#!/usr/bin/env python3
"""Makes result files of published tables, for `lockstep report --published`; README.md describes the columns.

to_json.py [-o FOLDER] [TABLE.csv ...]     without a table: those of sources/ that this folder has as JSON"""

import argparse
import csv
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
PHASES = ("input_s", "forward_s", "backward_s", "waiting_s", "transfer_s", "optimizer_s", "other_s", "step_s")
# The source of each shipped table, and what its text says of all of its rows.
SHIPPED = {
    "pytorch_throughput": ("README of xuewanqi/pytorch_throughput (GitHub), K80 in p2.8xlarge nodes", {"model": "resnet50", "strategy": "ddp", "image_size": "224"}, [
        "It was measured without waiting for the device: 'forward' is mostly the time to launch kernels."]),
    "pytorch_ddp": ("README of benchmarks/distributed/ddp in pytorch/pytorch (GitHub), V100", {"strategy": "ddp", "bucket_mb": "25", "image_size": "224"}, []),
    "pytorch_ddp_bucket_diff": ("README of benchmarks/distributed/ddp in pytorch/pytorch (GitHub), V100", {"strategy": "ddp", "image_size": "224"}, [
        "The source's own changes against buckets of 25 MB contradict its times in 10 of 40 places."]),
    "tensorpack_multigpu": ("README of ResNet-MultiGPU in tensorpack/benchmarks (GitHub)", {"model": "resnet50", "image_size": "224"}, []),
    "theano_mpi": ("speed-up notebook of uoguelph-mlrg/Theano-MPI (GitHub), K80", {"strategy": "bsp"}, [
        "The stated speed-ups leave synchronization out: t1 / (training + communication).",
        "AlexNet on 8 GPUs is the run whose processes were bound to their NUMA node, as in all other runs of 8; the "
        "other one took 2.61 s, 1.31 s and 7.84 s."]),
}


def run_of(row):
    """A row as the result file has it, without what follows from other rows."""
    def number(column):
        return float(row.get(column) or 0)

    ranks = int(next(row[name] for name in ("gpus", "ranks", "workers") if name in row))
    batch = int(number("batch_per_gpu")) or 1
    setup = row.get("setup", "")
    nodes = re.match(r"(\d+)M/", setup)
    run = {"model": row["model"], "batch_per_rank": batch, "ranks": ranks,
           "strategy": "single" if setup == "no ddp" else row.get("variable_update") or row.get("strategy") or "published",
           "device": "cuda" if "gpus" in row else "cpu", "hosts": int(nodes[1] if nodes else number("nodes") or 1),
           "precision": row.get("precision") or "fp32", "input": row.get("input") or "device",
           "strategy_options": "compiled" if row.get("compiled") == "yes" else None, "pooled": True, "samples": [],
           "step_s": {name[:-2]: number(name) for name in ("p50_s", "p75_s", "p90_s", "p95_s") if number(name)}}
    if number("image_size"):
        run["image_size"] = int(number("image_size"))
    if number("bucket_mb") and run["strategy"] != "single":
        run["bucket_mb"] = number("bucket_mb")
    train, transfer, waiting = (number(f"{part}_s_per_5120_images") for part in ("train", "communication", "synchronisation"))
    step_s = number("p50_s") or number("p75_s") or (train + transfer + waiting) * batch * ranks / 5120
    rate = number("images_per_s") or number("overall_images_per_s") or (batch * ranks / step_s if step_s else 0)
    run["images_per_s"] = rate
    if train:
        phases = {name: part * batch * ranks / 5120 for name, part in
                  (("other_s", train), ("transfer_s", transfer), ("waiting_s", waiting))}
    elif number("forward_images_per_s"):
        step_s = batch * ranks / rate
        phases = {f"{part}_s": batch * ranks / number(f"{part}_images_per_s") for part in ("forward", "backward")}
        phases["other_s"] = step_s - sum(phases.values())
    else:
        return run | {"stated_speedup": number("speedup") or None}
    mean = dict.fromkeys(PHASES, 0.0) | phases | {"step_s": step_s}
    return run | {"stated_speedup": number("speedup") or None, "breakdown": {"phases": mean, "ranks": []}}


def add_speedups(runs):
    """Speed-ups against the row of one worker of the same settings, the one without a strategy if there is one."""
    def work(run, name=True):
        return [run.get(key) for key in ("model", "batch_per_rank", "precision", "input", "strategy_options")] + name * [run["strategy"]]

    for run in runs:
        alone = [other for other in runs if other["ranks"] == 1 and other["images_per_s"] and run["images_per_s"]]
        base = next((other for other in alone if other["strategy"] == "single" and work(other, False) == work(run, False)),
                    next((other for other in alone if work(other) == work(run)), None))
        if base:
            run["baseline"] = {key: base[key] for key in ("strategy", "ranks", "images_per_s")}
            run["speedup"] = run["images_per_s"] / base["images_per_s"]
            run["efficiency"] = run["speedup"] / run["ranks"]
        if base and "breakdown" in run and run["breakdown"]["phases"]["waiting_s"]:
            own = [(each["breakdown"]["phases"]["step_s"] - each["breakdown"]["phases"]["waiting_s"]) / each["ranks"] for each in (base, run)]
            run["stated_speedup"] = own[0] / own[1]


def records_of(path):
    """The records of a table by name: one for each hardware and system in it."""
    source, more, caveats = SHIPPED.get(path.stem, (path.name, {}, []))
    groups = {}
    for row in csv.DictReader(path.read_text(encoding="utf-8-sig").splitlines()):
        name = "_".join(row[column] for column in ("system", "hardware") if row.get(column)).lower() or path.stem
        try:
            run = run_of(more | {key: value for key, value in row.items() if value})
        except (KeyError, StopIteration, ValueError, AttributeError) as error:
            sys.exit(f"{path}: {row}: no published row ({error!r}); README.md describes the columns")
        settings = [run.get(key) for key in ("model", "batch_per_rank", "ranks", "strategy", "precision", "input", "strategy_options")]
        groups.setdefault(name, {}).setdefault(json.dumps(settings), run)
    for name, runs in groups.items():
        runs = list(runs.values())
        add_speedups(runs)
        strategies = [run["strategy"] for run in runs if run["strategy"] != "single"]
        single = len(strategies) < len(runs)
        yield name, {
            "schema_version": 2, "source": "published", "strategies": list(dict.fromkeys(strategies)),
            "baseline": {"strategy": "single" if single else strategies[0], "ranks": 1},
            "warnings": [{"text": text} for text in [f"Published: {source}."] + caveats], "runs": runs}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", dest="folder", type=pathlib.Path, default=HERE)
    parser.add_argument("tables", type=pathlib.Path, nargs="*", default=[HERE / "sources" / f"{name}.csv" for name in sorted(SHIPPED)])
    arguments = parser.parse_args()
    for path in arguments.tables:
        for name, record in records_of(path):
            # A line for each row, so that a change of the file can be read.
            rows = ",\n  ".join(json.dumps(run) for run in record.pop("runs"))
            text = json.dumps({"benchmark_results": [], "lockstep": record}, indent=1)
            (arguments.folder / f"{name}.json").write_text(text[:-5] + f',\n  "runs": [\n  {rows}]\n }}\n}}\n')


if __name__ == "__main__":
    main()
