#!/usr/bin/env python3
"""Reads a checkpoint with nothing but Python's own library.

    read_checkpoint.py CHECKPOINT SHAPES

The names, shapes and sizes of the tensors under `model/` must be those of SHAPES (tests/references/shapes), the values
must lie one after the other without gaps, as the package safetensors wants them, and the checksum must be that of the
file.
"""

import hashlib
import json
import math
import pathlib
import sys

BYTES = {"F32": 4, "I64": 8}


def main():
    """Compares a checkpoint's model with a list of shapes."""
    content = pathlib.Path(sys.argv[1]).read_bytes()
    values = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:values])
    metadata = header.pop("__metadata__")
    end = 0
    for entry in sorted(header.values(), key=lambda entry: entry["data_offsets"]):
        assert entry["data_offsets"] == [end, end + BYTES[entry["dtype"]] * math.prod(entry["shape"])], entry
        end = entry["data_offsets"][1]
    assert values + end == len(content) and values % 8 == 0
    checksum = metadata["lockstep_blake2b"].encode()
    assert hashlib.blake2b(content.replace(checksum, b"0" * 64, 1), digest_size=32).hexdigest().encode() == checksum
    model = {name.removeprefix("model/"): tuple(entry["shape"]) for name, entry in header.items() if name.startswith("model/")}
    expected = {}
    for line in pathlib.Path(sys.argv[2]).read_text().splitlines():
        _, name, *shape = line.split()
        expected[name] = tuple(map(int, shape))
    assert model == expected, set(model.items()) ^ set(expected.items())
    head = json.loads(metadata["lockstep"])
    assert all(isinstance(setting["value"], str) for setting in head["settings"])
    print(f"{len(expected)} tensors, step {head['step']}, {len(head['ranks'])} ranks")


main()
