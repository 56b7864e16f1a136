"""Reads the result files of `lockstep bench --json`."""

import json
import os

NEWEST_SCHEMA = 2


def read(path: str | os.PathLike) -> list[dict]:
    """One dictionary per row of the run, ready for pandas.DataFrame(). Keys are those of docs/json.md; those of an
    object within a row are joined: `step_s_p50`. Lists (samples, layers) stay as they are.

    Raises ValueError for a file that is not a result, or of a newer lockstep.
    """
    with open(path, encoding="utf-8") as file:
        try:
            content = json.load(file)
        except ValueError as error:
            raise ValueError(f"{path} is not JSON: {error}") from error
    own = content.get("lockstep") if isinstance(content, dict) else None
    if not isinstance(own, dict) or not isinstance(own.get("runs"), list):
        raise ValueError(f"{path} is not a result of lockstep bench --json")
    if own.get("schema_version", 0) > NEWEST_SCHEMA:
        raise ValueError(f"{path} is of a newer lockstep: schema {own['schema_version']}, this reads {NEWEST_SCHEMA}")
    return [_flat(run) for run in own["runs"]]


def _flat(entry: dict, prefix: str = "") -> dict:
    row = {}
    for key, value in entry.items():
        if isinstance(value, dict):
            row.update(_flat(value, f"{prefix}{key}_"))
        else:
            row[prefix + key] = value
    return row
