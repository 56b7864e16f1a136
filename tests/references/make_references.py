#!/usr/bin/env python3
"""Writes what tests/models compares lockstep's networks with, from torchvision and torch.nn (networks.py).

    .venv-dev/bin/python tests/references/make_references.py [NAME ...]

Without names, of all networks. Run by hand when a network is added; the tests themselves need no Python. Needs torch
and torchvision (made with 2.11.0 and 0.26.0). It writes, beside itself:

  shapes/NAME.txt   every parameter and buffer of a network, in state_dict order: kind, name, shape
  steps/NAME.json   one training step, batch 2, in fp64, dropout off: the loss, and a summary of the logits, of every
                    gradient and of every running statistic; and how far torch's own fp32 step is from them
  costs.json        per network and image of the published size: multiply-adds, and bytes kept for the backward pass

Weights are not stored. Both sides set them by the integer formula of `hashed` below, which
tests/models/hashed_values.h repeats: every value is a multiple of 2^-15 times a power of two, so exact in fp32.
"""

import json
import pathlib
import sys

import networks
import numpy as np
import torch

HERE = pathlib.Path(__file__).parent
RESNETS = ["resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "resnext50_32x4d", "resnext101_32x8d"]
OTHERS = ["alexnet", "alexnet_caffe", "vgg11", "vgg16", "vgg19", "googlenet", "googlenet_aux", "inception_v3"]
OTHERS += ["inception_v3_aux", "resnet20", "resnet56"]
ALL = RESNETS + OTHERS
# With the side of the image.
STEPS = {"resnet18": 64, "resnet50": 64, "resnext50_32x4d": 64, "alexnet": 64, "alexnet_caffe": 227, "vgg11": 64}
STEPS |= {"googlenet_aux": 64, "inception_v3_aux": 299, "resnet20": 64}
LEADING_VALUES = 4
# Of a larger tensor only the first enter the checksum.
CHECKSUM_VALUES = 1 << 22


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
    model = networks.build(name, dropout=False).to(dtype)
    with torch.no_grad():
        for stream, (parameter_name, parameter) in enumerate(model.named_parameters(), start=1):
            parameter.copy_(hashed_parameter(stream, parameter_name, parameter.shape))
    size, classes = STEPS[name], 10 if name in ("resnet20", "resnet56") else 1000
    images = (2 * hashed(0, 2 * 3 * size * size)).reshape(2, 3, size, size).to(dtype)
    logits, loss = networks.logits_and_loss(name, model, images, torch.tensor([3, 10 % classes]))
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
    checked = values[:CHECKSUM_VALUES]
    # Another stream than the weights': the gradient of a weight before batch norm is orthogonal to that weight.
    direction = hashed(1000 + stream, checked.numel())
    return {
        "norm": values.norm().item(),
        "checksum": torch.dot(checked, direction / direction.norm()).item(),
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
            "statistics": max((distance(statistics32[n], s) for n, s in statistics.items()), default=0),
        },
    }


def cost(name, bf16):
    model = networks.build(name).to(memory_format=torch.channels_last)
    # Where one value per channel would be left of one image, batch norm refuses it.
    batch = 2 if name == "inception_v3_aux" else 1
    size = networks.IMAGE_SIZE.get(name, 224)
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
        if storage.data_ptr() not in weights and tensor.dim() > 1 and tensor.shape[0] == batch:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    images = torch.randn(batch, 3, size, size).to(memory_format=torch.channels_last)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            _, loss = networks.logits_and_loss(name, model, images, torch.tensor([3, 4][:batch]))
    del loss
    return multiply_adds // batch, sum(kept.values()) // batch


def write(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


def write_shapes(name):
    model = networks.build(name)
    parameters = {n for n, _ in model.named_parameters()}
    lines = [
        f"{'parameter' if n in parameters else 'buffer'} {n} {' '.join(map(str, t.shape))}".rstrip()
        for n, t in model.state_dict().items()
    ]
    write(HERE / "shapes" / f"{name}.txt", "\n".join(lines) + "\n")


def main():
    chosen = sys.argv[1:] or ALL
    costs = json.loads((HERE / "costs.json").read_text())
    for name in chosen:
        write_shapes(name)
        if name in STEPS:
            # One line per tensor.
            text = json.dumps(step_reference(name)).replace("}, ", "},\n")
            write(HERE / "steps" / f"{name}.json", text + "\n")
        (multiply_adds, fp32_bytes), (_, bf16_bytes) = cost(name, False), cost(name, True)
        costs[name] = {"multiply_adds": multiply_adds, "fp32_bytes": fp32_bytes, "bf16_bytes": bf16_bytes}
    write(HERE / "costs.json", json.dumps({n: costs[n] for n in ALL if n in costs}, indent=2) + "\n")


if __name__ == "__main__":
    main()
