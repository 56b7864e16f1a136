"""bench() and report(): the program's commands as functions."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from lockstep import program
from lockstep.results import read


class RunError(Exception):
    """The program ended with an error, which the message repeats."""


def bench(json: str | os.PathLike | None = None, **flags) -> list[dict]:
    """Runs `lockstep bench` with the flags and returns its rows as read() does. Progress and warnings go to standard error.

        lockstep.bench(model="resnet18", ranks=[1, 2], strategy="ddp", image_size=64, max_time=5)

    json: keeps the whole result in this file, for report().
    flags: as `lockstep bench --help` lists them, with _ for -. A list is joined by commas; True is a flag without a value.

    Raises RunError.
    """
    with tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
        result = Path(json) if json is not None else Path(folder) / "result.json"
        run(["bench", "--json", str(result), *_as_arguments(flags)])
        return read(result)


def report(results: str | os.PathLike | Iterable[str | os.PathLike], page: str | os.PathLike, **flags) -> Path:
    """Writes the page that explains one or several results of bench(json=...). Raises RunError."""
    files = [results] if isinstance(results, (str, os.PathLike)) else results
    run(["report", *map(str, files), "-o", str(page), *_as_arguments(flags)])
    return Path(page)


def _as_arguments(flags: dict) -> list[str]:
    arguments = []
    for name, value in flags.items():
        if value is None or value is False:
            continue
        if name == "published" and isinstance(value, (list, tuple)):
            # Names of files may have commas.
            arguments += [argument for file in value for argument in ("--published", str(file))]
            continue
        arguments.append("--" + name.replace("_", "-"))
        if isinstance(value, (list, tuple, range)):
            arguments.append(",".join(map(str, value)))
        elif value is not True:
            arguments.append(str(value))
    return arguments


def run(arguments: list[str]) -> str:
    """Runs the program and returns its output. Raises RunError."""
    try:
        command, environment = program.found()
    except program.NotFound as error:
        raise RunError(str(error)) from error
    said = []
    # By way of sys.stderr, which is what a notebook shows.
    with tempfile.TemporaryFile("w+") as output, subprocess.Popen(
        [command, *arguments], env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.PIPE, text=True
    ) as process:  # fmt: skip
        try:
            for line in process.stderr:
                sys.stderr.write(line)
                said.append(line)
        except BaseException:
            # Ctrl-C in a notebook reaches Python alone.
            process.send_signal(signal.SIGINT)
            raise
        process.wait()
        output.seek(0)
        printed = output.read()
    if process.returncode != 0:
        errors = [number for number, line in enumerate(said) if line.startswith("lockstep: error: ")]
        text = "".join(said[errors[-1] :]).removeprefix("lockstep: error: ").strip() if errors else "".join(said[-3:]).strip()
        raise RunError(f"lockstep {arguments[0]} ended with code {process.returncode}: {text}")
    return printed
