#!/usr/bin/env python3
"""The step of a network from a file against eager PyTorch's, and against the built-in network's.

    PYTHONPATH=python bench/network_file_speed.py [--networks resnet50,vit_b_16] [--batch 4] [--rounds 3]

Each round runs `lockstep bench --model FILE` on one rank, the eager model in this Python (channels last, fused SGD),
and where lockstep has the network itself, that one with --kernels aten; the order rotates. Every run is a process of
its own with the same number of threads. Prints the median of the rounds' median steps; of the ratios, the median of
the rounds and its 95 % interval (of fewer than six rounds, their range); and, for machines that others disturb, the
ratio of the first deciles of all steps.

small_layers is a chain of 300 linear layers of 8 units, each with a ReLU: what a step takes is next to no arithmetic,
so the difference is Python's overhead, less that of the file's runner.

Run it with a Python that has torch 2.11 and torchvision (`make setup-python` makes .venv-dev), on a quiet machine.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

from vs_python import median_interval

ROOT = Path(__file__).resolve().parent.parent
BUILT_IN = {"resnet18", "resnet34", "resnet50", "resnet101", "alexnet", "vgg11", "vgg16"}
SGD = {"lr": 0.01, "momentum": 0.9, "weight_decay": 1e-4}


def build(network: str, batch: int):
    """The model, images and labels."""
    import torch
    import torchvision

    warnings.filterwarnings("ignore")
    torch.manual_seed(1)
    if network == "small_layers":
        layers = [layer for _ in range(300) for layer in (torch.nn.Linear(8, 8), torch.nn.ReLU())]
        return torch.nn.Sequential(*layers), torch.randn(batch, 8), torch.randint(8, (batch,))
    model = torchvision.models.get_model(network, weights=None).to(memory_format=torch.channels_last).train()
    images = torch.randn(batch, 3, 224, 224).contiguous(memory_format=torch.channels_last)
    return model, images, torch.randint(1000, (batch,))


def train_eager(network: str, batch: int, steps: int, threads: int) -> None:
    """Prints the seconds of each step."""
    import torch

    torch.set_num_threads(threads)
    model, images, labels = build(network, batch)
    optimizer = torch.optim.SGD(model.parameters(), **SGD, fused=True)
    times = []
    for _ in range(steps + 3):
        began = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        loss.item()
        times.append(time.perf_counter() - began)
    print(*times[3:])


def lockstep_steps(options, model: str, folder: str) -> list:
    """Seconds of each step of one rank."""
    result = Path(folder) / "result.json"
    command = [options.lockstep, "bench", "--model", model, "--batch", str(options.batch), "--ranks", "1",
               "--strategy", "single", "--no-controls", "--threads", str(options.threads), "--kernels", "aten",
               "--steps", str(options.steps), "--warmup", "3", "--json", str(result), "--quiet"]  # fmt: skip
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return [ranks[0] for ranks in json.loads(result.read_text())["lockstep"]["runs"][0]["samples"]]


def eager_steps(options, network: str) -> list:
    command = [sys.executable, __file__, "--eager", network, "--batch", str(options.batch), "--steps",
               str(options.steps), "--threads", str(options.threads)]  # fmt: skip
    environment = dict(os.environ, OMP_NUM_THREADS=str(options.threads))
    told = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    return [float(step) for step in told.split()]


def first_decile(rounds: list) -> float:
    return statistics.quantiles((step for steps in rounds for step in steps), n=10)[0]


def ratio(above: list, below: list) -> str:
    """Of two lists of rounds, each the steps' times."""
    medians = [statistics.median(one) / statistics.median(other) for one, other in zip(above, below)]
    middle, low, high = median_interval(medians)
    return f"{middle:.3f} ({low:.3f} to {high:.3f}), {first_decile(above) / first_decile(below):.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default="resnet50,vit_b_16")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--lockstep", default=str(ROOT / "build" / "lockstep"))
    parser.add_argument("--eager", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.eager:
        return train_eager(options.eager, options.batch, options.steps, options.threads)
    # The eager runs, processes of this file, do without lockstep.
    import lockstep
    import torch

    print(f"{options.rounds} rounds of {options.steps} steps, batch {options.batch}, {options.threads} threads; ms per step")
    print("| network | from the file | eager PyTorch | file / eager, of first deciles | built in, aten | file / built in |")
    print("|---|---|---|---|---|---|")
    for network in options.networks.split(","):
        with tempfile.TemporaryDirectory() as folder:
            file = f"{folder}/{network}.pt2"
            model, images, labels = build(network, options.batch)
            lockstep.export(model, torch.nn.functional.cross_entropy, images, labels, file)
            runs = {"file": lambda: lockstep_steps(options, file, folder), "eager": lambda: eager_steps(options, network)}
            if network in BUILT_IN:
                runs["built in"] = lambda: lockstep_steps(options, network, folder)
            times = {name: [] for name in runs}
            for turn in range(options.rounds):
                names = list(runs)
                for name in names[turn % len(names) :] + names[: turn % len(names)]:
                    times[name].append(runs[name]())
        median = {name: f"{1000 * statistics.median(map(statistics.median, rounds)):.1f}" for name, rounds in times.items()}
        row = f"| {network} | {median['file']} | {median['eager']} | {ratio(times['file'], times['eager'])} |"
        if "built in" in times:
            row += f" {median['built in']} | {ratio(times['file'], times['built in'])} |"
        print(row if "built in" in times else row + " | |", flush=True)


if __name__ == "__main__":
    main()
