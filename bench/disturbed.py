#!/usr/bin/env python3
"""Whether lockstep notices a machine that was disturbed while the baseline was measured, and cries wolf on a quiet one.

  bench/disturbed.py --runs 20                  a busy core while the baseline is measured
  bench/disturbed.py --runs 20 --quiet          nothing else: on a machine that has nothing else to do

Each run is `lockstep bench` of one network on one and two ranks. Disturbed: no run may end with a headline above 100 %
without the warning that its numbers cannot be true. Quiet: no run may have that warning. Exit code 1 otherwise.
"""

import argparse
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WARNING = "Do not trust what is marked with ?"


def burn(core):
    """A process that keeps a core busy."""
    code = f"import os\nos.sched_setaffinity(0, {{{core}}})\nwhile True: pass"
    return subprocess.Popen([sys.executable, "-c", code])


def run(options):
    """The output of a bench, with a core busy during its first row, the baseline."""
    command = [options.lockstep, "bench", "--model", options.model, "--ranks", "1,2", "--max-time", options.max_time,
               "--min-time", options.min_time, *options.flag]
    bench = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    load = []

    def watch():
        for line in bench.stderr:
            if options.quiet or not line.startswith("[1/"):
                continue
            # Only the first time: a row that was disturbed is measured again.
            if line.endswith(" ...\n") and not load:
                load.append(burn(min(os.sched_getaffinity(0))))
            elif load:
                load[0].kill()

    watcher = threading.Thread(target=watch)
    watcher.start()
    output = bench.stdout.read()
    watcher.join()
    for process in load:
        process.kill()
    if bench.wait() != 0:
        sys.exit(f"bench ended with {bench.returncode}")
    return output


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--quiet", action="store_true", help="disturb nothing")
    parser.add_argument("--model", default="lenet5")
    parser.add_argument("--max-time", default="3")
    parser.add_argument("--min-time", default="0.5")
    parser.add_argument("--flag", action="append", default=[], help="passed on to lockstep bench")
    parser.add_argument("--lockstep", default=str(ROOT / "build" / "lockstep"), help="the program")
    options = parser.parse_args()
    wrong = warned = 0
    for number in range(1, options.runs + 1):
        output = run(options)
        warning = WARNING in output
        shown = re.search(r"so (\d+) %\s+efficient", re.sub(r"\s+", " ", output[output.index("\nSummary\n"):]))
        efficiency = int(shown.group(1)) if shown else None
        warned += warning
        bad = warning if options.quiet else efficiency is not None and efficiency > 100 and not warning
        wrong += bad
        print(f"{number}: headline {efficiency} %, {'warned' if warning else 'not warned'}{' WRONG' if bad else ''}", flush=True)
        if bad:
            print(output[output.index("\nScaling"):])
    print(f"{options.runs} {'quiet' if options.quiet else 'disturbed'} runs: {warned} warned, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
