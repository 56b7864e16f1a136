"""The program of an installed wheel, started with the LibTorch of this Python.

The program's own RPATH names torch's folder beside this package, so nothing has to be set where both are installed into
one place, and whatever starts the program (a rank, mpirun, a debugger) finds LibTorch. Where torch is elsewhere, as with
a virtual environment over the system's packages, LD_LIBRARY_PATH names it; ranks inherit that.
"""

import importlib.util
import os
import re
import signal
import sys
from pathlib import Path

from lockstep.version import TORCH

PACKAGE = Path(__file__).resolve().parent
PROGRAM = PACKAGE / "bin" / "lockstep"
BESIDE = PACKAGE.parent / "torch"

BACKEND_MISSING = 4
"""Exit code of the program where something that it needs is not installed."""


class NotFound(Exception):
    """There is no program here, or no LibTorch that it can run with. The message says what to do."""


def is_installed() -> bool:
    return os.path.exists(PROGRAM)


def include_folder() -> str:
    """The folder for a compiler's -I, with the header of networks in C++: lockstep/models/network_plugin.h."""
    return str(PACKAGE / "include" if is_installed() else PACKAGE.parents[1] / "src")


def run(arguments: list[str]) -> int:
    """Becomes the program, whose exit code, signals and parent are then this process's. Returns only if it cannot."""
    try:
        path, environment = found()
    except NotFound as error:
        print(f"lockstep: {error}", file=sys.stderr)
        return BACKEND_MISSING
    # Python ignores these two, and a program keeps ignoring what was ignored when it was started.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.execve(path, ["lockstep", *arguments], environment)


def found() -> tuple[Path, dict[str, str]]:
    """The program and its environment: of the wheel, or else what was built in the sources that this package is in."""
    if is_installed():
        return PROGRAM, environment_of(_torch_folder(), os.environ)
    built = PACKAGE.parents[1] / "build" / "lockstep"
    if not built.exists():
        raise NotFound(f"there is no program beside this package, and no {built}: install the wheel, or run 'make build'")
    return built, dict(os.environ)


def environment_of(torch: Path, environment) -> dict[str, str]:
    """The program's environment: with torch's folders in LD_LIBRARY_PATH unless its RPATH has them."""
    changed = dict(environment)
    if torch == BESIDE:
        return changed
    # The wheels of CUDA lie beside torch, each with a folder of libraries.
    folders = [torch / "lib", *sorted(torch.parent.glob("nvidia/*/lib"))]
    before = changed.get("LD_LIBRARY_PATH")
    # For commands that `lockstep record` runs, whose torch may be another.
    changed["LOCKSTEP_USERS_LIBRARY_PATH"] = before or ""
    changed["LD_LIBRARY_PATH"] = ":".join([*map(str, folders), *([before] if before else [])])
    return changed


def _torch_folder() -> Path:
    """The torch beside this package, which the program's RPATH finds first, or else the one that this Python would
    import. It is not imported: that takes seconds."""
    install = f"{sys.executable} -m pip install 'torch=={TORCH}.*'"
    folder = BESIDE
    if not _has_library(folder):
        spec = importlib.util.find_spec("torch")
        if spec is None or not spec.submodule_search_locations:
            raise NotFound(f"{sys.executable} has no torch: {install}")
        folder = Path(spec.submodule_search_locations[0])
    version = _version_of(folder)
    if not version.startswith(TORCH + "."):
        raise NotFound(f"this lockstep runs with torch {TORCH}, and {folder} is {version or 'unknown'}: {install}")
    if not _has_library(folder):
        raise NotFound(f"{folder} has no lib/libtorch_cpu.so: {install}")
    return folder


def _has_library(torch: Path) -> bool:
    return (torch / "lib" / "libtorch_cpu.so").exists()


def _version_of(torch: Path) -> str:
    try:
        found = re.search(r"^__version__ = ['\"]([^'\"]+)", (torch / "version.py").read_text(), re.M)
    except OSError:
        return ""
    return found[1] if found else ""
