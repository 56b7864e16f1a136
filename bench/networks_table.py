#!/usr/bin/env python3
"""Whether networks from files end in the parameters that eager PyTorch ends in, network by network.

    PYTHONPATH=python bench/networks_table.py [--networks resnet18,gpt] [--steps 5]

Exports each network at a small size, trains it with `lockstep verify --export` on one rank, and trains the eager model
from the same parameters on the same batches with torch.optim.SGD (fused, as lockstep's is), both on one thread. Dropout
and stochastic depth are off, because their random numbers come in another order. Prints a line per network: tensors,
bytes of gradients, seconds to export, and how the updates of all parameters differ: the norm of the difference relative
to the norm of the update, or "same bits". (Tensor by tensor would say little: a bias before batch normalization has no
gradient but rounding.) Exit code 1 when a difference is over 1e-5.

Run it with a Python that has torch 2.11, torchvision and safetensors (`make setup-python` makes .venv-dev).
"""

import argparse
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import torch
import torch.nn.functional as F
import torchvision
from safetensors.torch import load_file
from torch import nn

import lockstep
from lockstep.catalog import classification_loss

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "examples"))
from networks import Gpt, following_token_loss  # noqa: E402

# The settings of `lockstep verify`.
SGD = {"lr": 0.05, "momentum": 0.9, "weight_decay": 1e-4}
CLASSES, BATCH, TOLERANCE = 10, 2, 1e-5

# Pixels at which each network is small and still whole.
TORCHVISION = {
    "alexnet": 64, "vgg11": 32, "vgg16_bn": 32, "squeezenet1_1": 64, "resnet18": 64, "resnet50": 64, "wide_resnet50_2": 32,
    "resnext50_32x4d": 64, "densenet121": 64, "googlenet": 64, "inception_v3": 299, "mobilenet_v2": 64,
    "mobilenet_v3_large": 64, "mnasnet1_0": 64, "shufflenet_v2_x1_0": 64, "regnet_y_400mf": 64, "efficientnet_b0": 160,
    "efficientnet_v2_s": 64, "convnext_tiny": 64, "swin_t": 64, "vit_b_16": 32,
}  # fmt: skip


class UNet(nn.Module):
    """Ronneberger et al. 2015 with two steps down, batch normalization and transposed convolutions."""

    def __init__(self, width=8, classes=5):
        super().__init__()
        double = lambda a, b: nn.Sequential(  # noqa: E731
            nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(), nn.Conv2d(b, b, 3, padding=1), nn.ReLU()
        )
        self.down1, self.down2, self.middle = double(3, width), double(width, 2 * width), double(2 * width, 4 * width)
        self.up2, self.up1 = (nn.ConvTranspose2d(a, a // 2, 2, 2) for a in (4 * width, 2 * width))
        self.join2, self.join1 = double(4 * width, 2 * width), double(2 * width, width)
        self.last = nn.Conv2d(width, classes, 1)

    def forward(self, images):
        first = self.down1(images)
        second = self.down2(F.max_pool2d(first, 2))
        x = self.up2(self.middle(F.max_pool2d(second, 2)))
        x = self.up1(self.join2(torch.cat([x, second], 1)))
        return self.last(self.join1(torch.cat([x, first], 1)))


class LstmClassifier(nn.Module):
    def __init__(self, words=100, width=32, classes=CLASSES):
        super().__init__()
        self.embedding, self.lstm = nn.Embedding(words, width), nn.LSTM(width, width, 2, batch_first=True)
        self.last = nn.Linear(width, classes)

    def forward(self, tokens):
        return self.last(self.lstm(self.embedding(tokens))[0][:, -1])


def others() -> dict:
    """Name: (model, loss, inputs, targets, options of export())."""
    tokens = torch.randint(200, (BATCH, 32))
    words = torch.randint(100, (BATCH, 16))
    images = torch.randn(BATCH, 3, 32, 32)
    return {
        "gpt": lambda: (Gpt(200, width=64, heads=4, depth=2, length=32), following_token_loss, tokens,
                        torch.roll(tokens, -1, 1), {"unit": "token", "units_per_sample": 32}),
        "unet": lambda: (UNet(), F.cross_entropy, images, torch.randint(5, (BATCH, 32, 32)), {}),
        "lstm": lambda: (LstmClassifier(), F.cross_entropy, words, torch.randint(CLASSES, (BATCH,)),
                         {"unit": "sequence"}),
    }  # fmt: skip


def without_chance(model: nn.Module) -> nn.Module:
    for module in model.modules():
        if isinstance(module, (nn.Dropout, nn.Dropout2d, torchvision.ops.StochasticDepth)):
            module.p = 0.0
        for name in ("dropout", "attention_dropout", "dropout_p"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    return model


def build(name: str):
    torch.manual_seed(1)
    if name in TORCHVISION:
        size = TORCHVISION[name]
        options = {"image_size": size} if name == "vit_b_16" else {}
        model = torchvision.models.get_model(name, weights=None, num_classes=CLASSES, **options)
        images, labels = torch.randn(BATCH, 3, size, size), torch.randint(CLASSES, (BATCH,))
        return without_chance(model), classification_loss, images, labels, {"target_range": (0, CLASSES)}
    model, *rest = others()[name]()
    return without_chance(model), *rest


def train_eager(model, loss, folder: Path, steps: int) -> dict:
    batches = load_file(folder / "batches.0.safetensors")
    with torch.no_grad():
        parameters = dict(model.named_parameters())
        for key, value in load_file(folder / "initial.safetensors").items():
            parameters[key].copy_(value)
    model = model.train()
    if batches["input0.0"].dim() == 4:
        model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), **SGD, fused=True)
    for step in range(steps):
        inputs = batches[f"input0.{step}"]
        if inputs.dim() == 4:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        optimizer.zero_grad(set_to_none=True)
        loss(model(inputs), batches[f"target0.{step}"]).backward()
        optimizer.step()
    return {key: value.detach() for key, value in model.named_parameters()}


def compare(name: str, options) -> tuple[str, bool]:
    model, loss, inputs, targets, details = build(name)
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        began = time.monotonic()
        file = lockstep.export(model, loss, inputs, targets, folder / "net.pt2", name=name, **details)
        export_s = time.monotonic() - began
        command = [options.lockstep, "verify", "--export", text, "--model", str(file), "--strategy", "ddp", "--ranks", "1",
                   "--steps", str(options.steps), "--threads", "1"]  # fmt: skip
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        initial, found = load_file(folder / "initial.safetensors"), load_file(folder / "final.safetensors")
        expected = train_eager(model, loss, folder, options.steps)
    same = all(torch.equal(found[key], expected[key]) for key in initial)
    norm = lambda a, b: sum((a[key] - b[key]).double().square().sum().item() for key in initial) ** 0.5  # noqa: E731
    apart = norm(found, expected) / norm(expected, initial)
    verdict = "same bits" if same else f"{apart:.1e}"
    mib = sum(value.numel() for value in initial.values()) * 4 / 2**20
    row = f"| {name} | {len(initial)} | {mib:.1f} | {export_s:.1f} | {verdict} |"
    return row, apart <= TOLERANCE


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = [*TORCHVISION, *others()]
    parser.add_argument("--networks", default=",".join(every), help="some of: %(default)s")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--lockstep", default=str(ROOT / "build" / "lockstep"))
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    print("| network | tensors | gradients, MiB | export, s | difference of the updates |")
    print("|---|---|---|---|---|")
    failed = []
    for name in options.networks.split(","):
        try:
            row, right = compare(name, options)
        except (lockstep.ExportError, subprocess.CalledProcessError, RuntimeError) as error:
            row, right = f"| {name} | | | | {type(error).__name__}: {str(error).splitlines()[0]} |", False
        print(row, flush=True)
        if not right:
            failed.append(name)
    if failed:
        print(f"over {TOLERANCE}: {' '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
