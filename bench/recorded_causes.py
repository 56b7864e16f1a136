#!/usr/bin/env python3
"""Whether `lockstep record` names what is wrong with a training, and nothing where nothing is.

    bench/recorded_causes.py [--runs 20] [--cause late,link] [--keep FOLDER] PYTHON

PYTHON: one with torch. Each run is tests/python/trainings/ddp.py on two ranks under torchrun, disturbed in one way. It
is named if the first cause in the summary is the right one; the undisturbed ones are to have none. Prints a line per run
and a table; exit code 1 if fewer than 19 of 20 are right, of any cause. `link` is one of 1 Gbit/s between two hosts of
tests/hosts/hosts.py.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "hosts"))
import hosts  # noqa: E402

PROGRAM = ROOT / "build" / "lockstep"
TRAINING = [ROOT / "tests" / "python" / "trainings" / "ddp.py", "--deep", "--steps", "90"]
BATCH = ["--batches", "8"]
RIGHT = 19 / 20

# By name: flags of the training, with {parts} of a step in seconds, and how the right cause begins.
CAUSES = {
    "late": ([*BATCH, "--late", "{tenth}"], "Rank 1's forward pass takes"),
    "loader": ([*BATCH, "--load", "{half}"], "Every step waits .* for its batch"),
    # Backward takes less time than 6.2 MB over that link.
    "link": (["--batches", "4"], "Communication takes .* GB/s"),
    "reduce-each": ([*BATCH, "--accumulate", "2", "--reduce-each"], "Each of 2 micro-batches reduces all gradients"),
    "batches": (["--batches", "4,8"], "Rank 1 trains 8 samples in a step, the others 4"),
    "healthy": (BATCH, None),
    "buffers": ([*BATCH, "--buffers", "16"], "Forward passes broadcast buffers"),
    "evaluation": ([*BATCH, "--evaluate", "10"], "Every 10 steps one takes"),
}


def run(command, **options):
    """What it writes to stdout."""
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True, **options)
    try:
        output, errors = process.communicate()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()
    if process.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {process.returncode}:\n{errors[-3000:]}")
    return output


def torchrun(options, *flags):
    return [options.python, "-m", "torch.distributed.run", *flags]


def recorded(options, folder, training):
    """The tables of a recorded training on this host."""
    launch = torchrun(options, "--standalone", "--nproc-per-node", "2")
    return run([PROGRAM, "record", "--keep", folder / "both", "--", *launch, *training])


def recorded_over_link(options, folder, training):
    """Likewise on two hosts."""
    network = hosts.Hosts(2, rate="1gbit")
    try:
        jobs = []
        for number, name in enumerate(network.names):
            launch = torchrun(options, "--nnodes", "2", "--nproc-per-node", "1", "--node-rank", number,
                              "--master-addr", "h0", "--master-port", "29400")
            command = [PROGRAM, "record", "--keep", folder / f"host-{number}", "--", *launch, *training]
            jobs.append(network.start(name, list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                      text=True, env={**os.environ, "GLOO_SOCKET_IFNAME": "eth0"}))
        try:
            errors = [job.communicate()[1] for job in jobs]
        finally:
            for job in jobs:
                job.terminate()
        for job, error in zip(jobs, errors):
            if job.returncode != 0:
                sys.exit(f"a host ended with {job.returncode}:\n{error[-3000:]}")
        return run([PROGRAM, "import", folder / "host-0", folder / "host-1"])
    finally:
        network.remove()


def causes_in(tables):
    """Those that the summary names."""
    summary = re.search(r"^Summary\n(.*?)(\n\n|\Z)", tables, re.M | re.S)
    if not summary:
        sys.exit(f"no summary:\n{tables}")
    first, *others = re.split(r"\n- ", summary[1])
    causes = [" ".join(each.split()) for each in others]
    return " ".join(first.split()), [cause for cause in causes if not cause.startswith("Speed-up and efficiency")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--cause", default=",".join(CAUSES), help="some of them [%(default)s]")
    parser.add_argument("--keep", type=Path, help="a folder for the recordings of runs that are not right")
    parser.add_argument("python")
    options = parser.parse_args()
    names = options.cause.split(",")
    for name in names:
        if name not in CAUSES:
            parser.error(f"--cause: '{name}' is none of {', '.join(CAUSES)}")
    if "link" in names:
        hosts.enter()
        run(["ip", "link", "set", "lo", "up"])
    # Ended from outside, it leaves no host behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    alone = run([*torchrun(options, "--standalone", "--nproc-per-node", "2"), *TRAINING, *BATCH])
    step_s = float(re.search(r"([\d.]+) s a step", alone)[1])
    print(f"undisturbed: {1e3 * step_s:.1f} ms a step", flush=True)
    rows = []
    for name in names:
        flags, right = CAUSES[name]
        training = [*TRAINING, *(flag.format(tenth=step_s / 10, half=step_s / 2) for flag in flags)]
        counts = {"right": 0, "silent": 0}
        for number in range(1, options.runs + 1):
            # Each host has a /tmp of its own.
            folder = Path(tempfile.mkdtemp(prefix="lockstep-causes-", dir=hosts.SHARED if name == "link" else None))
            try:
                record = recorded_over_link if name == "link" else recorded
                tables = record(options, folder, training)
                first, causes = causes_in(tables)
                is_right = not causes if right is None else bool(causes) and re.match(right, causes[0]) is not None
                counts["right"] += is_right
                counts["silent"] += not causes
                print(f"{name} {number}: {'right' if is_right else 'WRONG'}: {' | '.join(causes) or first}", flush=True)
                if options.keep and not is_right:
                    (folder / "tables.txt").write_text(tables)
                    shutil.copytree(folder, options.keep / f"{name}-{number}", dirs_exist_ok=True)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        rows.append((name, counts["right"], counts["silent"]))
    print("\n| cause | right | silent | of |\n|---|---|---|---|")
    for name, right, silent in rows:
        print(f"| {name} | {right} | {silent} | {options.runs} |")
    return 0 if all(right >= RIGHT * options.runs for _, right, _ in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
