#!/usr/bin/env python3
"""How well a replayed training predicts the real one: `--model replay:RUN.json` beside the network itself.

  bench/replay_table.py                            alexnet and resnet18 at 64x64 and batch 8
  bench/replay_table.py --repeats 5 --model resnet18
  bench/replay_table.py --recorded run.json        one record for all rows: of your own training, say

A network is measured once as ddp on 2 ranks with its breakdown; that file is replayed with the same settings, as
`replicated`, and on 3 ranks, each in turn with the real network under these settings. The ratios, replayed over real, of
the step's median and of exposed communication are geometric means over the repetitions with a 95 % interval (Student's
t on the logarithms). 1 is a perfect replay. The output is a Markdown table.
"""

import argparse
import json
import math
import subprocess
import tempfile
from pathlib import Path

from vs_python import ROOT, ratio_interval

SETTINGS = [("ddp", 2), ("replicated", 2), ("ddp", 3)]


def measure(options, network, strategy, ranks, result):
    """Returns the seconds of the median step and of exposed communication."""
    command = [options.lockstep, "bench", *network, "--strategy", strategy, "--ranks", str(ranks), "--threads", "1",
               "--no-controls", "--breakdown", "--steps", str(options.steps), "--json", result, "--force"]
    finished = subprocess.run(command, capture_output=True, text=True)
    if finished.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))} ended with {finished.returncode}:\n{finished.stderr}")
    run = json.loads(Path(result).read_text())["lockstep"]["runs"][0]
    phases = run["breakdown"]["phases"]
    return run["step_s"]["p50"], phases["waiting_s"] + phases["transfer_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", help="networks [alexnet, resnet18]")
    parser.add_argument("--image-size", default="64")
    parser.add_argument("--batch", default="8")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--recorded", help="a result to replay in place of the measured one")
    parser.add_argument("--lockstep", default=ROOT / "build/lockstep")
    options = parser.parse_args()
    print("| network | strategy | ranks | real step | replayed / real step | exposed |\n|---|---|---|---|---|---|")
    for model in options.model or ["alexnet", "resnet18"]:
        network = ["--model", model, "--image-size", options.image_size, "--batch", options.batch, "--kernels", "aten"]
        with tempfile.TemporaryDirectory() as folder:
            recorded = options.recorded or f"{folder}/recorded.json"
            if not options.recorded:
                measure(options, network, "ddp", 2, recorded)
            for strategy, ranks in SETTINGS:
                pairs = [(measure(options, network, strategy, ranks, f"{folder}/real.json"),
                          measure(options, ["--model", f"replay:{recorded}"], strategy, ranks, f"{folder}/replayed.json"))
                         for _ in range(options.repeats)]
                step = ratio_interval([math.log(replayed[0] / real[0]) for real, replayed in pairs])
                exposed = ratio_interval([math.log(replayed[1] / real[1]) for real, replayed in pairs])
                real_s = sorted(real[0] for real, _ in pairs)[len(pairs) // 2]
                print(f"| {model} | {strategy} | {ranks} | {1000 * real_s:.1f} ms | {step[0]:.3f} ({step[1]:.3f} to "
                      f"{step[2]:.3f}) | {exposed[0]:.2f} ({exposed[1]:.2f} to {exposed[2]:.2f}) |", flush=True)


if __name__ == "__main__":
    main()
