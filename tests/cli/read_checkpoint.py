#!/usr/bin/env python3
"""Reads a checkpoint with nothing but Python's own library, as torch.load(weights_only=True) does.

    read_checkpoint.py CHECKPOINT SHAPES

What that allows beside plain values is a tensor of a storage; anything else in the file ends this with an error. The
names, shapes and sizes under `model` must be those of SHAPES (tests/references/shapes).
"""

import collections
import math
import pathlib
import pickle
import sys
import zipfile

BYTES = {"FloatStorage": 4, "LongStorage": 8}
ALLOWED = {
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("torch._utils", "_rebuild_tensor_v2"): lambda storage, offset, shape, strides, *_: check(storage, offset, shape),
} | {("torch", name): name for name in BYTES}


def check(storage, offset, shape):
    """The shape of a tensor that fills its storage."""
    kind, count, size = storage
    assert offset == 0 and math.prod(shape) == count and size == count * BYTES[kind], (storage, shape)
    return tuple(shape)


class Reader(pickle.Unpickler):
    """Refuses what torch.load(weights_only=True) refuses."""

    def __init__(self, archive):
        names = archive.namelist()
        self.archive = archive
        self.folder = next(name for name in names if name.endswith("/data.pkl"))[: -len("data.pkl")]
        super().__init__(archive.open(self.folder + "data.pkl"))

    def find_class(self, module, name):
        """Only what is on the list."""
        return ALLOWED[module, name]

    def persistent_load(self, pid):
        """A storage: what it is of, how many, and the bytes in the file, whose checksum is checked."""
        word, kind, key, location, count = pid
        assert word == "storage" and location == "cpu", pid
        return kind, count, len(self.archive.read(f"{self.folder}data/{key}"))


def main():
    """Compares a checkpoint's model with a list of shapes."""
    with zipfile.ZipFile(sys.argv[1]) as archive:
        checkpoint = Reader(archive).load()
    expected = {}
    for line in pathlib.Path(sys.argv[2]).read_text().splitlines():
        _, name, *shape = line.split()
        expected[name] = tuple(map(int, shape))
    assert checkpoint["model"] == expected, set(checkpoint["model"].items()) ^ set(expected.items())
    assert checkpoint["format"] == "lockstep checkpoint"
    assert all(isinstance(value, str) for value in checkpoint["settings"].values())
    print(f"{len(expected)} tensors, step {checkpoint['step']}, {len(checkpoint['ranks'])} ranks")


main()
