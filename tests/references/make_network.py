#!/usr/bin/env python3
"""Makes three networks' files that tests read, and small.json: five steps of small.pt2 in eager PyTorch.

tests/models/traced_model_test.cpp trains small.pt2 and compares; tests/network_file breaks it in many ways. tokens.pt2 has
no batch normalization, so tests/cli can verify all promises with it. random.pt2 draws random numbers of each kind. Run as
tests/python/CMakeLists.txt runs its tests, with the folder to write to:

    PYTHONPATH=python:TORCH'S-FOLDER LD_LIBRARY_PATH=build/tests/python/torch_stubs \\
        .venv-tests/bin/python3 tests/references/make_network.py tests/references
"""

import json
import sys
from pathlib import Path

import torch

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "python"))

import lockstep  # noqa: E402
from networks import Attention, ConvNet, Random, following_token_loss  # noqa: E402

STEPS, BATCH = 5, 2


def main() -> None:
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = ConvNet().to(memory_format=torch.channels_last)
    # The C++ test makes the same ones.
    images = torch.sin(0.37 * torch.arange(BATCH * 192, dtype=torch.float64)).float().view(BATCH, 3, 8, 8)
    images = images.contiguous(memory_format=torch.channels_last)
    labels = torch.tensor([3, 7])
    loss = torch.nn.functional.cross_entropy
    lockstep.export(model, loss, images, labels, folder / "small.pt2", target_range=(0, 10), name="small")

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        value = loss(model(images), labels)
        value.backward()
        optimizer.step()
        losses.append(value.item())
    sums = {name: value.double().abs().sum().item() for name, value in model.state_dict().items()}
    (folder / "small.json").write_text(json.dumps({"losses": losses, "absolute_sums": sums}, indent=1) + "\n")

    tokens = torch.randint(40, (BATCH, 6))
    lockstep.export(
        Attention(), following_token_loss, tokens, torch.roll(tokens, -1, 1), folder / "tokens.pt2",
        unit="token", units_per_sample=6, input_range=(0, 40), target_range=(0, 40), name="tokens",
    )  # fmt: skip
    lockstep.export(Random(), loss, images, labels, folder / "random.pt2", target_range=(0, 10), name="random")


if __name__ == "__main__":
    main()
