#!/usr/bin/env python3
"""`lockstep record` with trainings in the forms that people write (bench/python/training_forms.py), on two ranks.

    bench/recorded_forms.py [--python PYTHON] [FORM...]

PYTHON: one with torch, and with torchvision, transformers, accelerate and lightning for the forms that need them; those
that it cannot run are skipped with a sentence. Prints each form's share of every phase of a step, as Markdown, and ends
with 1 if a form fails under `lockstep record` that runs without, or leaves one of these phases empty.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "bench/python/training_forms.py"
# They start their ranks themselves; torchrun starts those of the others.
OWN_LAUNCH = ("spawn", "lightning_trainer")
NEEDS = {
    "torchvision_reference": "torchvision", "transformers_trainer": "transformers", "accelerate_loop": "accelerate",
    "lightning_trainer": "lightning",
}  # fmt: skip
FORMS = [
    "plain", "torchvision_reference", "nanogpt", "transformers_trainer", "accelerate_loop", "lightning_trainer", "fsdp2",
    "no_sync", "compiled_model", "compiled_optimizer", "own_optimizer", "own_optimizer_with_closure", "gan",
    "gan_with_loader", "gan_of_five", "zero_redundancy", "exponential_average", "spawn",
]  # fmt: skip
PHASES = {
    "input": ["input_s"], "forward": ["forward_s"], "backward": ["backward_s"], "exposed": ["waiting_s", "transfer_s"],
    "optimizer": ["optimizer_s"], "other": ["other_s"],
}  # fmt: skip


def run(command, **options):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600, cwd=ROOT, **options)


def launch_of(python, form):
    torchrun = [] if form in OWN_LAUNCH else ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return [python, *torchrun, SCRIPT, form]


def recorded(options, form):
    """Shares of the phases; or a sentence, and whether it is a fault."""
    module = NEEDS.get(form)
    if module and run([options.python, "-c", f"import {module}"]).returncode != 0:
        return f"skipped: {module} is not installed", False
    with tempfile.TemporaryDirectory() as folder:
        command = launch_of(options.python, form)
        finished = run([options.lockstep, "record", "-o", f"{folder}/run.json", "--", *command])
        if finished.returncode != 0 and run(command).returncode != 0:
            return "skipped: it does not run without `lockstep record`, either", False
        result = Path(folder, "run.json")
        if finished.returncode != 0 or not result.exists():
            return f"failed with {finished.returncode}: {finished.stderr[-1000:]}", True
        times = json.loads(result.read_text())["lockstep"]["runs"][0]["breakdown"]["phases"]
    return {phase: sum(times[key] for key in keys) / times["step_s"] for phase, keys in PHASES.items()}, False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forms", nargs="*", metavar="FORM", help=f"{', '.join(FORMS)} [all]")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--lockstep", default=ROOT / "build/lockstep")
    options = parser.parse_args()
    print(f"| form | {' | '.join(PHASES)} |\n|{'---|' * (1 + len(PHASES))}")
    faults = 0
    for form in options.forms or FORMS:
        shares, fault = recorded(options, form)
        if isinstance(shares, str):
            print(f"| {form} | {shares} |", flush=True)
            faults += fault
            continue
        print(f"| {form} | {' | '.join(f'{100 * share:.1f} %' for share in shares.values())} |", flush=True)
        faults += any(share <= 0 for phase, share in shares.items() if phase != "other")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
