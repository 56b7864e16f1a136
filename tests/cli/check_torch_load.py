#!/usr/bin/env python3
"""Exchanges values with Python's torch and torchvision, in both directions.

    check_torch_load.py LOCKSTEP

A checkpoint of LOCKSTEP is read by torch.load(weights_only=True) into torchvision's network, strictly, and what
torch.save makes of a state_dict is what a training begins with.
"""

import pathlib
import subprocess
import sys
import tempfile

import torch
import torchvision

COMMON = ["train", "--model", "resnet18", "--image-size", "32", "--batch", "2", "--threads", "1", "--bind", "none"]


def main():
    """Both directions, on one small training."""
    folder = pathlib.Path(tempfile.mkdtemp())

    def train(*more):
        subprocess.run([sys.argv[1], *COMMON, "--steps-per-epoch", "2", *more], check=True)

    train("--ranks", "2", "--checkpoint", str(folder / "a.pt"))
    checkpoint = torch.load(folder / "a.pt", weights_only=True)
    network = torchvision.models.resnet18()
    network.load_state_dict(checkpoint["model"], strict=True)
    assert checkpoint["model"]["bn1.num_batches_tracked"] == 2
    assert len(checkpoint["ranks"]) == 2 and checkpoint["step"] == 2

    torch.manual_seed(1)
    saved = torchvision.models.resnet18()
    torch.save(saved.state_dict(), folder / "b.pt")
    # A rate of nothing, nearly: what comes out is what went in.
    train("--ranks", "1", "--lr", "1e-30", "--weight-decay", "0", "--init", str(folder / "b.pt"), "--checkpoint", str(folder / "c.pt"))
    values = torch.load(folder / "c.pt", weights_only=True)["model"]
    for name, parameter in saved.named_parameters():
        assert torch.allclose(values[name], parameter, rtol=0, atol=1e-20), name
    assert not torch.equal(values["conv1.weight"], network.conv1.weight)
    print("both directions agree")


main()
