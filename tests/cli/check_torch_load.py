#!/usr/bin/env python3
"""Exchanges values with Python's torch, torchvision and safetensors, in both directions.

    check_torch_load.py LOCKSTEP

A checkpoint of LOCKSTEP is read by safetensors.torch.load_file into torchvision's network, strictly, and a state_dict
that safetensors saved is what a training begins with.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import torchvision
from safetensors import safe_open
from safetensors.torch import load_file, save_file

COMMON = ["train", "--model", "resnet18", "--image-size", "32", "--batch", "2", "--threads", "1", "--bind", "none"]


def model_in(path):
    """The state_dict in a checkpoint."""
    return {name.removeprefix("model/"): value for name, value in load_file(path).items() if name.startswith("model/")}


def main():
    """Both directions, on one small training."""
    folder = pathlib.Path(tempfile.mkdtemp())

    def train(*more):
        subprocess.run([sys.argv[1], *COMMON, "--steps-per-epoch", "2", *more], check=True)

    train("--ranks", "2", "--checkpoint", str(folder / "a.safetensors"))
    model = model_in(folder / "a.safetensors")
    network = torchvision.models.resnet18()
    network.load_state_dict(model, strict=True)
    assert model["bn1.num_batches_tracked"] == 2
    with safe_open(folder / "a.safetensors", "pt") as file:
        head = json.loads(file.metadata()["lockstep"])
    assert len(head["ranks"]) == 2 and head["step"] == 2

    torch.manual_seed(1)
    saved = torchvision.models.resnet18()
    save_file(saved.state_dict(), folder / "b.safetensors")
    # A rate of nothing, nearly: what comes out is what went in.
    train("--ranks", "1", "--lr", "1e-30", "--weight-decay", "0", "--init", str(folder / "b.safetensors"), "--checkpoint", str(folder / "c.safetensors"))
    values = model_in(folder / "c.safetensors")
    for name, parameter in saved.named_parameters():
        assert torch.allclose(values[name], parameter, rtol=0, atol=1e-20), name
    assert not torch.equal(values["conv1.weight"], network.conv1.weight)
    print("both directions agree")


main()
