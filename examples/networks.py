#!/usr/bin/env python3
"""Exports six networks that a job scales differently with than with ResNets: a file NAME.pt2 each.

    PYTHONPATH=python examples/networks.py FOLDER [--networks vit_b_16,gpt2] [--batch 8] [--small]
    lockstep bench --model FOLDER/vit_b_16.pt2,FOLDER/gpt2.pt2 --ranks 1,2 --json result.json
    lockstep report result.json -o report.html

Values are random and nothing is downloaded. --small takes few pixels and tokens, to try it. Needs torch 2.11, and
torchvision for all but gpt2.
"""

import argparse
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import lockstep
from lockstep import catalog

# Pixels of --small: as few as leave each network whole.
IMAGES = {"vit_b_16": 32, "convnext_tiny": 64, "swin_t": 64, "efficientnet_v2_s": 64, "mobilenet_v3_large": 64}
GPT2 = "gpt2"
NAMES = [*IMAGES, GPT2]


class Gpt(nn.Module):
    """GPT-2's decoder (Radford et al. 2019), by default the small one of 124 million parameters: learned positions,
    blocks that begin with their norm, and the embedding as the last layer. Without dropout."""

    def __init__(self, words=50257, width=768, heads=12, depth=12, length=1024):
        super().__init__()
        self.tokens, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        for embedding in (self.tokens, self.places):
            nn.init.normal_(embedding.weight, std=0.02)
        block = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, activation=nn.GELU("tanh"), batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(block, depth, norm=nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens):
        length = tokens.shape[1]
        hidden = self.tokens(tokens) + self.places(torch.arange(length, device=tokens.device))
        mask = nn.Transformer.generate_square_subsequent_mask(length, device=tokens.device)
        return self.head(self.blocks(hidden, mask=mask, is_causal=True))


def following_token_loss(logits, following):
    return F.cross_entropy(logits.flatten(0, 1), following.flatten())


def named(name: str, batch: int, small: bool) -> catalog.Named:
    if name != GPT2:
        return catalog.build(f"torchvision:{name}", batch, IMAGES[name] if small else None, 10 if small else 1000, 0)
    torch.manual_seed(1)
    words, length = (200, 32) if small else (50257, 1024)
    model = Gpt(words, 64, 4, 2, length) if small else Gpt()
    tokens = torch.randint(words, (batch, length))
    options = {"unit": "token", "units_per_sample": length, "input_range": (0, words), "target_range": (0, words)}
    return catalog.Named(model, following_token_loss, tokens, torch.roll(tokens, -1, 1), options)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--networks", default=",".join(NAMES), help="some of: %(default)s")
    parser.add_argument("--batch", type=int, default=8, help="samples of a step (default: %(default)s)")
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    networks = options.networks.split(",")
    for name in networks:
        if name not in NAMES:
            parser.error(f"there is no network '{name}'; choose from {', '.join(NAMES)}")
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in networks:
        try:
            one = named(name, options.batch, options.small)
            path = lockstep.export(
                one.model, one.loss, one.inputs, one.targets, options.folder / f"{name}.pt2", name=name, **one.options
            )
        except lockstep.ExportError as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 1
        print(f"{path}: {sum(value.numel() for value in one.model.parameters()):,} parameters", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
