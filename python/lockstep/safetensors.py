"""Files *.safetensors, and convert(): what torch.save wrote in, a file for `lockstep train --init` out.

Written here with a checksum that the program compares, and without the package `safetensors`, which reads them too.
"""

import ctypes
import hashlib
import json
import os
import pickle
from collections.abc import Mapping
from pathlib import Path

import torch

CHECKSUM = "lockstep_blake2b"
"""Key of the checksum: BLAKE2b of the whole file, with zeros in place of its own hexadecimal digits."""

_NONE = "0" * 64
TYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
    torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip


class ConvertError(Exception):
    """The file has no tensors by name that could be written. The message says why."""


def convert(source: str | os.PathLike, target: str | os.PathLike) -> Path:
    """Writes the tensors of a file of torch.save, a state_dict or a dictionary that has one as `model` or `state_dict`,
    to a file *.safetensors. Nothing in the source is executed (torch.load with weights_only)."""
    target = Path(target)
    if target.suffix != ".safetensors":
        raise ConvertError(f"'{target}' does not end in .safetensors")
    try:
        content = torch.load(source, map_location="cpu", weights_only=True)
    except OSError as error:
        raise ConvertError(f"'{source}' cannot be read: {os.strerror(error.errno or 0)}") from error
    except (EOFError, RuntimeError, pickle.UnpicklingError) as error:
        # Without PyTorch's own advice, which is to execute what the file says.
        raise ConvertError(f"'{source}' is damaged, was not written by torch.save, or holds more than tensors and plain values") from error
    for name in ("model", "state_dict"):
        if isinstance(content, Mapping) and isinstance(content.get(name), Mapping):
            content = content[name]
    if not isinstance(content, Mapping) or not content:
        raise ConvertError(f"'{source}' holds no state_dict: save one as torch.save(model.state_dict(), FILE)")
    for name, value in content.items():
        if not isinstance(name, str) or not isinstance(value, torch.Tensor) or value.dtype not in TYPES or value.layout != torch.strided:
            raise ConvertError(f"'{source}' holds more than a state_dict: '{name}' is no tensor of plain numbers")
    write(target, content)
    return target


def write(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Writes tensors by name, whole or not at all."""
    # Readers map the file and expect aligned values: the widest come first.
    ordered = sorted(tensors.items(), key=lambda entry: -entry[1].element_size())
    header, end = {"__metadata__": {CHECKSUM: _NONE}}, 0
    for name, value in ordered:
        header[name] = {"dtype": TYPES[value.dtype], "shape": list(value.shape), "data_offsets": [end, end + value.nbytes]}
        end += value.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    begin = len(text).to_bytes(8, "little") + text
    digest = hashlib.blake2b(begin, digest_size=32)
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(beside, "wb") as file:
            file.write(begin)
            for _, value in ordered:
                flat = value.detach().contiguous()
                part = ctypes.string_at(flat.data_ptr(), flat.nbytes) if flat.nbytes else b""
                digest.update(part)
                file.write(part)
            file.seek(begin.index(_NONE.encode()))
            file.write(digest.hexdigest().encode())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
