#!/usr/bin/env python3
"""Phases that `lockstep record` finds in a training, beside those that the training stamps by itself in the same steps.

  bench/recorded_phases.py PYTHON                            resnet18, alexnet and a GPT block on 2 and 3 ranks
  bench/recorded_phases.py --runs 10 --model gpt --ranks 2 PYTHON

PYTHON: one with torch and torchvision. A run is a DistributedDataParallel training over Gloo with a thread per rank, at
64x64 and batch 8, which stamps its own phases: around the DataLoader, the loss and the optimizer, in each parameter's
gradient hook and in a communication hook. `lockstep record` is told nothing of them. Printed for each phase is the
largest difference of any rank in any run, as a part of the step. Beside it stands exposed communication of the same
training without stamps, whose hooks delay communication, over that of `lockstep bench --strategy ddp --kernels aten`
with unpinned ranks, as torchrun has them: the median ratio of the runs. Markdown.
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
    """The training. With a folder it writes the seconds of each step's phases there."""
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

    if folder:
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
    if folder:
        Path(folder, f"own-{dist.get_rank()}.json").write_text(json.dumps(seconds))
    dist.destroy_process_group()


def record(options, model, ranks, folder, *flags):
    """Phases of each rank of a recorded training, in seconds."""
    result = f"{folder}/run.json"
    command = [PROGRAM, "record", "--quiet", "--keep", f"{folder}/kept", "-o", result, "--", options.python, "-m",
               "torch.distributed.run", "--nproc-per-node", ranks, __file__, "--train", model, "--steps",
               options.steps, *flags, options.python]  # fmt: skip
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stderr}")
    breakdown = json.loads(Path(result).read_text())["lockstep"]["runs"][0]["breakdown"]
    if breakdown is None:
        sys.exit(f"{options.steps} steps are too few for a window behind warm-up; give --steps 60:\n{done.stderr}")
    return [rank["phases"] for rank in breakdown["ranks"]]


def differences(options, model, ranks):
    """By rank: the differences of its phases from its stamps, as parts of the step."""
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for rank, phases in enumerate(record(options, model, ranks, folder, "--folder", folder)):
            first, last = json.loads(Path(folder, f"kept/rank-{rank}.json").read_text())["window"]
            # The steps at the ends of the window are in part outside of it.
            own = json.loads(Path(folder, f"own-{rank}.json").read_text())[first:last]
            means = [statistics.mean(step[i] for step in own) for i in range(len(PHASES))]
            seen = {**{name: phases[name + "_s"] for name in PHASES if name != "exposed"},
                    "exposed": phases["waiting_s"] + phases["transfer_s"]}  # fmt: skip
            if abs(sum(seen.values()) + phases["other_s"] - phases["step_s"]) > 1e-9:
                sys.exit(f"the phases of rank {rank} do not sum to its step: {phases}")
            found.append([(seen[name] - mean) / sum(means) for name, mean in zip(PHASES, means)])
        return found


def recorded_exposed(options, model, ranks):
    with tempfile.TemporaryDirectory() as folder:
        all_phases = record(options, model, ranks, folder)
        return statistics.mean(phases["waiting_s"] + phases["transfer_s"] for phases in all_phases)


def bench_exposed(model, ranks):
    with tempfile.TemporaryDirectory() as folder:
        command = [PROGRAM, "bench", "--model", model, "--image-size", 64, "--batch", BATCH, "--strategy", "ddp",
                   "--kernels", "aten", "--ranks", ranks, "--threads", 1, "--bind", "none", "--backend", "gloo", "--no-controls",
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
                for of_rank in differences(options, model, ranks):
                    worst = [max(a, b, key=abs) for a, b in zip(worst, of_rank)]
                if model != "gpt":
                    ratios.append(recorded_exposed(options, model, ranks) / bench_exposed(model, ranks))
            shown = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})" if ratios else "-"
            print(f"| {model} | {ranks} | {options.runs} | {' | '.join(f'{100 * w:+.1f} %' for w in worst)} | {shown} |",
                  flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
