"""Versions that go into files."""

VERSION = "0.1.0"

TORCH = "2.11"
"""The minor version of PyTorch that writes files for the program, and whose libraries the program runs with."""

FORMAT = 1
"""The number of the file format, docs/your-network.md."""
