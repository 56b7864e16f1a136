#!/usr/bin/env python3
"""Makes `import torch` work where only the CPU's share of PyTorch's CUDA wheel is installed.

    setup/torch_stubs.py TORCH-FOLDER OUTPUT-FOLDER

`make setup` leaves out the 4 GB of CUDA libraries that no CPU needs, but the wheel's Python half links them. This writes
a library for each one that neither the wheels beside torch nor the system have: all its functions abort, and nothing
calls them without a GPU. Put OUTPUT-FOLDER into LD_LIBRARY_PATH of that Python. Needs cc and binutils.
"""

import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path


def output(*command: object) -> str:
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def undefined(library: Path) -> set[str]:
    """Names with their version, as in "nvshmem_free@NVSHMEM"."""
    return set(re.findall(r"^\s+U (\S+)$", output("nm", "-D", "--undefined-only", library), re.M))


def defined(library: Path) -> set[str]:
    return {line.split()[-1].split("@")[0] for line in output("nm", "-D", "--defined-only", library).splitlines()}


def needed_versions(library: Path) -> dict[str, set[str]]:
    """Versions of symbols that a library wants, by the name of the library that has them."""
    versions, name = defaultdict(set), ""
    for line in output("readelf", "-VW", library).splitlines():
        if found := re.search(r"File: (\S+)", line):
            name = found[1]
        elif found := re.search(r"Name: (\S+)  Flags", line):
            versions[name].add(found[1])
    return versions


def write_stub(name: str, folder: Path, plain: set[str], versioned: dict[str, set[str]]) -> None:
    source, script = folder / f"{name}.c", folder / f"{name}.map"
    symbols = plain.union(*versioned.values())
    source.write_text(
        "void abort(void);\n" + "".join(f"void {symbol}(void) {{ abort(); }}\n" for symbol in sorted(symbols))
    )
    script.write_text(
        "".join(f"{version} {{ global: {'; '.join(sorted(names))}; }};\n" for version, names in versioned.items() if names)
    )
    options = [f"-Wl,--version-script={script}"] if script.read_text() else []
    output("cc", "-w", "-fno-builtin", "-shared", "-fPIC", f"-Wl,-soname,{name}", *options, source, "-o", folder / name)
    source.unlink()
    script.unlink()


def main() -> None:
    torch, folder = Path(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    ours = [path for path in sorted((torch / "lib").glob("*.so*")) if path.is_file()]
    beside = sorted(torch.parent.glob("nvidia/*/lib/*.so*"))
    system = {Path(path).name: Path(path) for path in re.findall(r"=> (\S+)", output("/sbin/ldconfig", "-p"))}
    needed = {name for path in ours for name in re.findall(r"NEEDED.*\[(.*)\]", output("readelf", "-dW", path))}
    there = {path.name for path in ours + beside}
    missing = sorted(name for name in needed if name not in there and name not in system and "libcuda.so" not in name)
    if not missing:
        return
    wanted = set().union(*(undefined(path) for path in ours))
    known = set().union(*(defined(path) for path in ours + beside))
    known.update(*(defined(system[name]) for name in needed - there if name in system))
    versions = defaultdict(set)
    for path in ours:
        for name, names in needed_versions(path).items():
            versions[name] |= names
    # Other undefined names are Python's.
    plain = {name for name in wanted if re.match("cu[A-Z]|cu(bl|dn|ff|ra|so|sp)|nccl|nv", name) and "@" not in name} - known
    for name in missing:
        versioned = {v: {w.split("@")[0] for w in wanted if w.endswith("@" + v)} for v in versions[name]}
        # Nothing says which library has a name without a version: any will do.
        write_stub(name, folder, plain if name == missing[0] else set(), versioned)
    print(f"{folder}: {', '.join(missing)}", file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main()
