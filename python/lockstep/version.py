"""Versions that go into files."""

VERSION = "0.1.0"

FORMAT = 1
"""The number of the file format, docs/your-network.md."""
