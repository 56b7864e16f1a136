"""Descriptions of inputs and targets: their names, types and shapes, and how the program makes random ones."""

import torch


def at_batch(tensor: torch.Tensor, batch: int) -> torch.Tensor:
    """The example with `batch` samples: the first ones, or all of them repeated."""
    return tensor[torch.arange(batch) % tensor.shape[0]].contiguous(memory_format=format_of(tensor))


def format_of(tensor: torch.Tensor) -> torch.memory_format:
    if tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last) and not tensor.is_contiguous():
        return torch.channels_last
    return torch.contiguous_format


def type_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def describe(name: str, tensor: torch.Tensor, limits: tuple[int, int] | None) -> dict:
    """The entry of the metadata. Integers are drawn from `limits`, the upper one excluded, or from the example's."""
    entry = {
        "name": name,
        "shape": list(tensor.shape[1:]),
        "dtype": type_name(tensor.dtype),
        "channels_last": format_of(tensor) == torch.channels_last,
    }
    if tensor.is_floating_point():
        values = tensor.double()
        entry["random"] = {"kind": "normal", "mean": float(values.mean()), "std": float(values.std(correction=0))}
    else:
        low, high = limits if limits else (int(tensor.min()), int(tensor.max()) + 1)
        entry["random"] = {"kind": "integers", "low": int(low), "high": int(high)}
    return entry
