#!/usr/bin/env python3
"""Writes what tests/models compares lockstep's networks with, from torchvision.

    .venv-dev/bin/python tests/references/make_references.py

Run by hand when a network is added; the tests themselves need no Python. Needs torch and torchvision (made with
2.11.0 and 0.26.0). It writes, beside itself:

  shapes/NAME.txt   every parameter and buffer of a network, in state_dict order: kind, name, shape
  steps/NAME.json   one training step at 64x64, batch 2, in fp64: the loss, and a summary of the logits, of every
                    gradient and of every running statistic; and how far torchvision's own fp32 step is from them
  costs.json        per network and one 224x224 image: multiply-adds, and bytes kept for the backward pass

Weights are not stored. Both sides set them by the integer formula of `hashed` below, which
tests/models/hashed_values.h repeats: every value is a multiple of 2^-15 times a power of two, so exact in fp32.
"""

import json
import pathlib

import numpy as np
import torch
import torchvision

HERE = pathlib.Path(__file__).parent
SHAPES = ["resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "resnext50_32x4d", "resnext101_32x8d"]
STEPS = ["resnet18", "resnet50", "resnext50_32x4d"]
LEADING_VALUES = 4


def hashed(stream, count):
    """`count` fp64 numbers in [-1, 1), multiples of 2^-15."""
    x = np.arange(count, dtype=np.uint32) + np.uint32(stream * 0x9E3779B9 & 0xFFFFFFFF)
    x *= np.uint32(0x9E3779B1)
    x ^= x >> np.uint32(15)
    x *= np.uint32(0x85EBCA77)
    x ^= x >> np.uint32(13)
    x *= np.uint32(0xC2B2AE3D)
    x ^= x >> np.uint32(16)
    return torch.from_numpy((x >> np.uint32(16)).astype(np.float64) / 32768 - 1)


def hashed_parameter(stream, name, shape):
    """Uniform within a power of two near 1/sqrt(fan in) for weights; 1 and 0, give or take 1/4, for batch norm."""
    values = hashed(stream, int(np.prod(shape))).reshape(shape)
    if len(shape) > 1:
        fan_in, bound = int(np.prod(shape[1:])), 1.0
        while fan_in >= 4:
            fan_in, bound = fan_in // 4, bound / 2
        return values * bound
    return values / 4 + (1 if name.endswith(".weight") else 0)


def step(name, dtype):
    model = getattr(torchvision.models, name)(weights=None).to(dtype).train()
    with torch.no_grad():
        for stream, (parameter_name, parameter) in enumerate(model.named_parameters(), start=1):
            parameter.copy_(hashed_parameter(stream, parameter_name, parameter.shape))
    images = (2 * hashed(0, 2 * 3 * 64 * 64)).reshape(2, 3, 64, 64).to(dtype)
    logits = model(images)
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor([3, 10]))
    loss.backward()
    gradients = {n: p.grad.double().flatten() for n, p in model.named_parameters()}
    statistics = {n: b.double() for n, b in model.named_buffers() if not n.endswith("num_batches_tracked")}
    return logits.detach().double(), loss.item(), gradients, statistics


def distance(a, b):
    """Relative, in the Euclidean norm."""
    return ((a - b).norm() / b.norm()).item()


def summary(stream, values):
    """Two tensors whose distance is d differ by at most d in each of these numbers, rounding aside."""
    values = values.flatten()
    # Another stream than the weights': the gradient of a weight before batch norm is orthogonal to that weight.
    direction = hashed(1000 + stream, values.numel())
    return {
        "norm": values.norm().item(),
        "checksum": torch.dot(values, direction / direction.norm()).item(),
        "leading": values[:LEADING_VALUES].tolist(),
    }


def summaries(tensors):
    return {n: summary(stream, t) for stream, (n, t) in enumerate(tensors.items(), start=1)}


def step_reference(name):
    logits, loss, gradients, statistics = step(name, torch.float64)
    logits32, _, gradients32, statistics32 = step(name, torch.float32)
    return {
        "loss": loss,
        "logits": summary(0, logits),
        "gradients": summaries(gradients),
        "statistics": summaries(statistics),
        "fp32_distance": {
            "logits": distance(logits32, logits),
            "gradients": max(distance(gradients32[n], g) for n, g in gradients.items()),
            "statistics": max(distance(statistics32[n], s) for n, s in statistics.items()),
        },
    }


def cost(name, bf16):
    model = getattr(torchvision.models, name)(weights=None).to(memory_format=torch.channels_last)
    multiply_adds = 0

    def count(module, _, output):
        nonlocal multiply_adds
        multiply_adds += output.numel() * module.weight[0].numel()

    for module in model.modules():
        if isinstance(module, (torch.nn.Conv2d, torch.nn.Linear)):
            module.register_forward_hook(count)

    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        # Weights, their bf16 copies and per-channel statistics do not grow with the batch.
        if storage.data_ptr() not in weights and tensor.dim() > 1 and tensor.shape[0] == 1:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    images = torch.randn(1, 3, 224, 224).to(memory_format=torch.channels_last)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            loss = torch.nn.functional.cross_entropy(model(images), torch.tensor([3]))
    del loss
    return multiply_adds, sum(kept.values())


def write(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


def main():
    for name in SHAPES:
        model = getattr(torchvision.models, name)(weights=None)
        parameters = {n for n, _ in model.named_parameters()}
        lines = [
            f"{'parameter' if n in parameters else 'buffer'} {n} {' '.join(map(str, t.shape))}".rstrip()
            for n, t in model.state_dict().items()
        ]
        write(HERE / "shapes" / f"{name}.txt", "\n".join(lines) + "\n")
    for name in STEPS:
        # One line per tensor.
        text = json.dumps(step_reference(name)).replace("}, ", "},\n")
        write(HERE / "steps" / f"{name}.json", text + "\n")
    costs = {}
    for name in SHAPES:
        (multiply_adds, fp32_bytes), (_, bf16_bytes) = cost(name, False), cost(name, True)
        costs[name] = {"multiply_adds": multiply_adds, "fp32_bytes": fp32_bytes, "bf16_bytes": bf16_bytes}
    write(HERE / "costs.json", json.dumps(costs, indent=2) + "\n")


if __name__ == "__main__":
    main()
