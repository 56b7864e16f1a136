#!/usr/bin/env python3
"""Writes the IDX files of this folder from the digits that scikit-learn ships.

    python3 -m pip download --no-deps scikit-learn
    python3 data/digits/make_digits.py scikit_learn-*.whl

Needs nothing but Python: a wheel is an archive, and the digits lie in it as text, 64 values from 0 to 16 and the digit
per line. Neighbours look like one writer's: every sixth is for evaluation, so that both sets hold digits of the same
writers.
"""

import gzip
import pathlib
import struct
import sys
import zipfile

SIDE = 8
BRIGHTEST = 16
EVERY = 6
FOR_EVALUATION = 297


def read_digits(wheel):
    with zipfile.ZipFile(wheel) as archive:
        text = gzip.decompress(archive.read("sklearn/datasets/data/digits.csv.gz")).decode()
    return [[int(float(value)) for value in line.split(",")] for line in text.split()]


def write_idx(folder, prefix, digits):
    images = bytes((255 * value + BRIGHTEST // 2) // BRIGHTEST for digit in digits for value in digit[:-1])
    labels = bytes(digit[-1] for digit in digits)
    header = struct.pack(">IIII", 0x803, len(digits), SIDE, SIDE)
    (folder / f"{prefix}-images-idx3-ubyte").write_bytes(header + images)
    (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, len(digits)) + labels)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    digits = read_digits(sys.argv[1])
    folder = pathlib.Path(__file__).resolve().parent
    held_back = set(range(EVERY - 1, EVERY * FOR_EVALUATION, EVERY))
    write_idx(folder, "train", [digit for index, digit in enumerate(digits) if index not in held_back])
    write_idx(folder, "t10k", [digits[index] for index in sorted(held_back)])


if __name__ == "__main__":
    main()
