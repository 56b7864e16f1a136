#!/usr/bin/env python3
"""Writes state_dict.pt: what Python's torch.save makes of a small network's state_dict.

An OrderedDict with attributes, a convolution, and batch norm's running statistics and counter after one batch.
tests/train/archive_test.cpp reads it. Run with .venv-dev/bin/python3.
"""
import pathlib

import torch

torch.manual_seed(1)
network = torch.nn.Sequential()
network.add_module("conv", torch.nn.Conv2d(1, 2, 3))
network.add_module("bn", torch.nn.BatchNorm2d(2))
with torch.no_grad():
    network.conv.weight.copy_(torch.arange(18.0).reshape(2, 1, 3, 3))
    network.conv.bias.copy_(torch.tensor([0.5, -0.25]))
network(torch.ones(4, 1, 5, 5))
torch.save(network.state_dict(), pathlib.Path(__file__).parent / "state_dict.pt")
