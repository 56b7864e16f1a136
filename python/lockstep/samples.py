"""Descriptions of inputs and targets: their names, types and shapes, and how the program makes random ones."""

import torch

from lockstep.refusals import ExportError
from lockstep.safetensors import TYPES


def at_batch(tensor: torch.Tensor, batch: int) -> torch.Tensor:
    """The example with `batch` samples: the first ones, or all of them repeated."""
    return tensor[torch.arange(batch) % tensor.shape[0]].contiguous(memory_format=format_of(tensor))


def format_of(tensor: torch.Tensor) -> torch.memory_format:
    if tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last) and not tensor.is_contiguous():
        return torch.channels_last
    return torch.contiguous_format


def type_name(name: str, tensor: torch.Tensor) -> str:
    """Raises ExportError for a type that the program does not know."""
    if tensor.dtype not in TYPES:
        known = ", ".join(str(dtype).removeprefix("torch.") for dtype in TYPES)
        raise ExportError(f"{name} is {tensor.dtype}; tensors of a file are {known}")
    return str(tensor.dtype).removeprefix("torch.")


def describe(name: str, tensor: torch.Tensor, limits: tuple[int, int] | None) -> dict:
    """The entry of the metadata. Integers are drawn from `limits`, the upper one excluded, or from 0 (or the example's
    lowest one below it) to the example's highest."""
    entry = {
        "name": name,
        "shape": list(tensor.shape[1:]),
        "dtype": type_name(name, tensor),
        "channels_last": format_of(tensor) == torch.channels_last,
    }
    if tensor.is_floating_point():
        # Masks hold -inf.
        values = tensor.double()[tensor.isfinite()]
        mean, std = (float(values.mean()), float(values.std(correction=0))) if values.numel() else (0.0, 1.0)
        entry["random"] = {"kind": "normal", "mean": mean, "std": std}
    else:
        low, high = limits if limits else (min(0, int(tensor.min())), int(tensor.max()) + 1)
        entry["random"] = {"kind": "integers", "low": int(low), "high": int(high)}
    return entry
