#!/usr/bin/env python3
"""How often `lockstep compare` is right on this machine: launches of a network against itself, and against itself
slowed down by a known share.

  bench/compare_rates.py                        40 comparisons of equals and 40 with a test that is 5 % slower
  bench/compare_rates.py --comparisons 5        five of each
  bench/compare_rates.py --slower 3%            another share
  bench/compare_rates.py --csv FILE             a line per comparison too
  bench/compare_rates.py -- --row-time 2        flags of compare for all of them

The known delay is in slow_clock.cpp, which is compiled and put into the launches with LD_PRELOAD: each reading of the
clock takes longer in launches with --seed 2, which is all that the two sides differ in. How much a step gains by that
is measured first.

Prints a Markdown table. Exit code 1 if more than 7.5 % of the equals are told apart, or fewer than 95 % of the slowed
down are found.
"""

import argparse
import csv
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time


def share(text):
    return float(text[:-1]) / 100 if text.endswith("%") else float(text)


def row_flags(options):
    flags = ["--model", options.model, "--ranks", str(options.ranks), "--batch", str(options.batch), "--threads", "1"]
    return flags + (["--image-size", str(options.image_size)] if options.image_size else [])


def run(command, library, delay_ns):
    environment = {**os.environ, "LD_PRELOAD": library, "LOCKSTEP_SLOW_NS": str(delay_ns)}
    begin = time.perf_counter()
    finished = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if finished.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {finished.returncode}:\n{finished.stderr}")
    return finished.stdout, time.perf_counter() - begin


def median_step_s(options, library, delay_ns, folder):
    path = os.path.join(folder, f"step_{delay_ns}.json")
    for _ in range(3):
        run([options.lockstep, "bench", *row_flags(options), "--seed", "2", "--no-controls", "--quiet", "--steps", "200",
             "--json", path, "--append"], library, delay_ns)
    with open(path, encoding="utf-8") as file:
        return json.load(file)["lockstep"]["runs"][0]["step_s"]["p50"]


def delay_of(options, library, folder):
    """Nanoseconds per reading of the clock that make a step longer by the share."""
    plain_s = median_step_s(options, library, 0, folder)
    # Large enough that the noise of the launches does not matter.
    probe_ns = round(plain_s * 1e9)
    readings = (median_step_s(options, library, probe_ns, folder) - plain_s) / (probe_ns * 1e-9)
    if readings < 1:
        sys.exit("the delay does not reach the step: is the machine busy?")
    return round(options.slower * plain_s / readings * 1e9), plain_s, readings


def compare(options, library, delay_ns, slower):
    text, took_s = run([
        options.lockstep, "compare", "--quiet", *options.compare_flags, *row_flags(options), "--",
        *(["--seed", "2"] if slower else []),
    ], library, delay_ns)
    verdict = re.search(r"^Verdict: (?:test is )?(slower|faster|no difference|not certain)", text, re.MULTILINE)
    ratio = re.search(r"([\d.]+)\s+times\s+the\s+rate\s+of\s+base\s+\[([\d.]+),\s+([\d.]+)\]", text)
    launches = re.search(r"^Ended after (\d+) launch", text, re.MULTILINE)
    if verdict is None or ratio is None or launches is None:
        sys.exit(f"not understood:\n{text}")
    return {"verdict": verdict[1], "ratio": float(ratio[1]), "low": float(ratio[2]), "high": float(ratio[3]),
            "launches_a_side": int(launches[1]), "took_s": round(took_s, 1)}


def summary(name, found, expected):
    count = {word: sum(one["verdict"] == word for one in found)
             for word in ("slower", "faster", "no difference", "not certain")}
    launches = sorted(one["launches_a_side"] for one in found)
    took = sum(one["took_s"] for one in found)
    right = sum(one["verdict"] == expected for one in found)
    print(f"| {name} | {len(found)} | {count['slower']} | {count['faster']} | {count['no difference']} | "
          f"{count['not certain']} | {launches[len(launches) // 2]} | {took / len(found):.0f} s |", flush=True)
    return right


def write_csv(path, found):
    if not path:
        return
    rows = [{"kind": kind, **one} for kind, ones in found.items() for one in ones]
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lockstep", default="build/lockstep")
    parser.add_argument("--comparisons", type=int, default=40, help="of each kind")
    parser.add_argument("--slower", type=share, default=0.05, help="share by which the test is slower")
    parser.add_argument("--model", default="lenet5")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--image-size", type=int)
    parser.add_argument("--csv")
    parser.add_argument("compare_flags", nargs="*", help="flags of lockstep compare, behind --")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        library = os.path.join(folder, "slow_clock.so")
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "slow_clock.cpp")
        subprocess.run(["c++", "-std=c++20", "-O2", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        delay_ns, plain_s, readings = delay_of(options, library, folder)
        print(f"{options.model} with batch {options.batch} on {options.ranks} ranks: {1000 * plain_s:.2f} ms per step, "
              f"{readings:.1f} readings of the clock; {delay_ns} ns each make it {100 * options.slower:g} % slower\n",
              flush=True)
        kinds = ["equal", "slower"] * options.comparisons
        # Mixed, so that a change of the machine's load meets both kinds.
        random.Random(1).shuffle(kinds)
        found = {"equal": [], "slower": []}
        for number, kind in enumerate(kinds, 1):
            one = compare(options, library, delay_ns, kind == "slower")
            found[kind].append(one)
            write_csv(options.csv, found)
            print(f"[{number}/{len(kinds)}] {kind}: {one}", file=sys.stderr, flush=True)
    print("| test | comparisons | slower | faster | no difference | not certain | launches a side, median | time |")
    print("|---|---|---|---|---|---|---|---|")
    summary("equal", found["equal"], "no difference")
    right = summary(f"{100 * options.slower:g} % slower", found["slower"], "slower")
    false_alarms = sum(one["verdict"] in ("slower", "faster") for one in found["equal"])
    if false_alarms > 0.075 * options.comparisons or right < 0.95 * options.comparisons:
        sys.exit(f"{false_alarms} equals were told apart, and {right} of {options.comparisons} slower ones found")


if __name__ == "__main__":
    main()
