#!/usr/bin/env python3
"""Phases that `lockstep record` finds in a training, beside those that the training stamps by itself in the same steps.

  bench/recorded_phases.py PYTHON                            resnet18, alexnet and a GPT block on 2 and 3 ranks
  bench/recorded_phases.py --runs 10 --model gpt --ranks 2 PYTHON

PYTHON: one with torch and torchvision. A run is a DistributedDataParallel training over Gloo with a thread per rank, at
64x64 and batch 8, which stamps its own phases: around the DataLoader, the loss and the optimizer, in each parameter's
gradient hook and in a communication hook. `lockstep record` is told nothing of them. Printed for each phase is the
largest difference of any rank in any run, as a part of the step, and beside it how exposed communication of `lockstep
bench --strategy ddp --kernels aten` compares (its ratio, recorded over bench, median of the runs). Markdown.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[1] / "build" / "lockstep"
PHASES = ["input", "forward", "backward", "exposed", "optimizer"]
BATCH = 8


def train(model, steps, folder):
    """The training, which writes the seconds of each step's phases."""
    import torch
    import torch.distributed as dist
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if model == "gpt":
        words = 1000

        class Block(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.embed = torch.nn.Embedding(words, 256)
                self.layer = torch.nn.TransformerEncoderLayer(256, 4, 1024, dropout=0, batch_first=True)
                self.head = torch.nn.Linear(256, words)

            def forward(self, x):
                mask = torch.nn.Transformer.generate_square_subsequent_mask(x.shape[1])
                return self.head(self.layer(self.embed(x), mask, is_causal=True)).flatten(0, 1)

        network, inputs = Block(), torch.randint(words, (BATCH * steps, 64))
        targets = inputs.roll(-1, 1)
    else:
        import torchvision

        network = getattr(torchvision.models, model)()
        inputs, targets = torch.randn(BATCH * steps, 3, 64, 64), torch.randint(1000, (BATCH * steps,))
    network = torch.nn.parallel.DistributedDataParallel(network)
    now = time.perf_counter
    gradients, arrivals = [0.0], [0.0]

    def communicate(_, bucket):
        def ended(future):
            arrivals[0] = now()
            return future.value()[0]

        return allreduce_hook(None, bucket).then(ended)

    network.register_comm_hook(None, communicate)
    for parameter in network.parameters():
        parameter.register_post_accumulate_grad_hook(lambda _: gradients.__setitem__(0, now()))
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3, momentum=0.9)
    batches = iter(torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs, targets), batch_size=BATCH))
    seconds = []
    began = now()
    for _ in range(steps):
        x, y = next(batches)
        optimizer.zero_grad()
        has_input = now()
        loss = torch.nn.functional.cross_entropy(network(x), y.flatten())
        forward = now()
        loss.backward()
        optimizer.step()
        end = now()
        backward, exposed = gradients[0], max(arrivals[0], gradients[0])
        marks = [began, has_input, forward, backward, exposed, end]
        seconds.append([b - a for a, b in zip(marks, marks[1:])])
        began = end
    Path(folder, f"own-{dist.get_rank()}.json").write_text(json.dumps(seconds))
    dist.destroy_process_group()


def run(options, model, ranks):
    """By rank: the differences of its phases, and its exposed seconds."""
    with tempfile.TemporaryDirectory() as folder:
        kept, result = f"{folder}/kept", f"{folder}/run.json"
        command = [PROGRAM, "record", "--quiet", "--keep", kept, "-o", result, "--", options.python, "-m",
                   "torch.distributed.run", "--nproc-per-node", ranks, __file__, "--train", model, "--steps",
                   options.steps, "--folder", folder, options.python]  # fmt: skip
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stderr}")
        breakdown = json.loads(Path(result).read_text())["lockstep"]["runs"][0]["breakdown"]
        found = []
        for rank, recorded in enumerate(breakdown["ranks"]):
            first, last = json.loads(Path(kept, f"rank-{rank}.json").read_text())["window"]
            # The steps at the ends of the window are in part outside of it.
            own = json.loads(Path(folder, f"own-{rank}.json").read_text())[first:last]
            means = [statistics.mean(step[i] for step in own) for i in range(len(PHASES))]
            phases = recorded["phases"]
            seen = {**{name: phases[name + "_s"] for name in PHASES if name != "exposed"},
                    "exposed": phases["waiting_s"] + phases["transfer_s"]}  # fmt: skip
            if abs(sum(seen.values()) + phases["other_s"] - phases["step_s"]) > 1e-9:
                sys.exit(f"the phases of rank {rank} do not sum to its step: {phases}")
            found.append(([(seen[name] - mean) / sum(means) for name, mean in zip(PHASES, means)], seen["exposed"]))
        return found


def bench_exposed(model, ranks):
    with tempfile.TemporaryDirectory() as folder:
        command = [PROGRAM, "bench", "--model", model, "--image-size", 64, "--batch", BATCH, "--strategy", "ddp",
                   "--kernels", "aten", "--ranks", ranks, "--threads", 1, "--backend", "gloo", "--no-controls",
                   "--breakdown", "--steps", 40, "--quiet", "--json", f"{folder}/run.json"]  # fmt: skip
        subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)
        phases = json.loads(Path(folder, "run.json").read_text())["lockstep"]["runs"][0]["breakdown"]["phases"]
        return phases["waiting_s"] + phases["transfer_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--model", action="append", help="networks [resnet18, alexnet, gpt]")
    parser.add_argument("--ranks", type=int, action="append", help="numbers of ranks [2, 3]")
    parser.add_argument("--train", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("python")
    options = parser.parse_args()
    if options.train:
        train(options.train, options.steps, options.folder)
        return
    print(f"| network | ranks | runs | {' | '.join(PHASES)} | exposed, recorded / bench |\n|---|---|---|" + "---|" * 6)
    for model in options.model or ["resnet18", "alexnet", "gpt"]:
        for ranks in options.ranks or [2, 3]:
            worst, ratios = [0.0] * len(PHASES), []
            for _ in range(options.runs):
                found = run(options, model, ranks)
                for differences, _ in found:
                    worst = [max(a, b, key=abs) for a, b in zip(worst, differences)]
                if model != "gpt":
                    ratios.append(statistics.mean(exposed for _, exposed in found) / bench_exposed(model, ranks))
            shown = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})" if ratios else "-"
            print(f"| {model} | {ranks} | {options.runs} | {' | '.join(f'{100 * w:+.1f} %' for w in worst)} | {shown} |",
                  flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
