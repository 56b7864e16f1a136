"""Local SGD and DiLoCo end where thirty lines of Python end that train the same batches."""

import tempfile
import unittest
from pathlib import Path

import torch
import torch.nn.functional as F

from built_program import run_program
from test_convert import read

SGD = {"lr": 0.05, "momentum": 0.9, "weight_decay": 1e-4}


def train(start, batches, steps, every, rate, momentum):
    """DiLoCo (Douillard et al. 2023, algorithm 1) with SGD as inner and Nesterov's as outer optimizer; mlp."""
    shared = {name: value.clone().requires_grad_() for name, value in start.items()}
    outer = torch.optim.SGD(shared.values(), lr=rate, momentum=momentum, nesterov=momentum > 0)
    workers = [{name: value.clone().requires_grad_() for name, value in start.items()} for _ in batches]
    inner = [torch.optim.SGD(worker.values(), **SGD) for worker in workers]
    for step in range(steps):
        for worker, optimizer, own in zip(workers, inner, batches):
            x = own[f"images.{step}"].flatten(1)
            weights = list(worker.values())
            for layer in range(0, len(weights), 2):
                x = F.linear(x if layer == 0 else F.relu(x), weights[layer], weights[layer + 1])
            optimizer.zero_grad()
            F.cross_entropy(x, own[f"labels.{step}"]).backward()
            optimizer.step()
        if (step + 1) % every:
            continue
        with torch.no_grad():
            for name, value in shared.items():
                value.grad = value - sum(worker[name] for worker in workers) / len(workers)
            outer.step()
            for worker in workers:
                for name, value in worker.items():
                    value.copy_(shared[name])
    return {name: value.detach() for name, value in shared.items()}


class LocalSgdTest(unittest.TestCase):
    def check(self, every, rate, momentum, ranks=3):
        steps = 3 * every
        with tempfile.TemporaryDirectory() as folder:
            finished = run_program(
                "verify", "--export", folder, "--model", "mlp", "--strategy", "local_sgd", "--ranks", str(ranks),
                "--threads", "1", "--bind", "none", "--batch", "4", "--steps", str(steps), "--sync-every", str(every),
                "--outer-lr", str(rate), "--outer-momentum", str(momentum),
            )
            self.assertEqual(finished.returncode, 0, finished.stderr)
            start, end = read(Path(folder) / "initial.safetensors"), read(Path(folder) / "final.safetensors")
            batches = [read(Path(folder) / f"batches.{rank}.safetensors") for rank in range(ranks)]
        for name, value in train(start, batches, steps, every, rate, momentum).items():
            move = (value - start[name]).abs().max()
            self.assertGreater(move, 0)
            self.assertLess((value - end[name]).abs().max() / move, 1e-4, name)

    def test_averages_every_few_steps(self):
        self.check(4, 1, 0)

    def test_diloco(self):
        self.check(3, 0.7, 0.9)
        self.check(1, 0.9, 0.5, ranks=2)


if __name__ == "__main__":
    unittest.main()
