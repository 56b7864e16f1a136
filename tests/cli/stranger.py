#!/usr/bin/env python3
"""A stranger at every listener of a running job, and in folders that are shared.

    stranger.py PID LISTENERS [ADDRESS [CONNECTIONS]]
    stranger.py folders PROGRAM

PID listens, at the loopback address or ADDRESS, and may be on another host. Prints what was done, and by how much PID's
memory grew. It goes on until it has made so many connections (1000) to each of so many listeners, or the job has ended.

Of the process's listeners it attacks those that are lockstep's own: the job's server (it asks a question) and
--input zmq (ZeroMQ's greeting). It opens connections by the thousand, and sends garbage, huge lengths, single bytes,
a recorded hello and a wrong token. Started by root it connects as another user.

folders, as root: `record --keep` with three Python processes, in a folder of root's that all may write to (as /tmp), and
in one that another user made, who plants code and links in it and in TMPDIR meanwhile. Prints how many processes ran that
code, and how many files were changed and read.
"""
import contextlib
import encodings.idna  # noqa: F401  nobody may be unable to read this Python's own files
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

PID, LISTENERS = map(int, sys.argv[1:3]) if sys.argv[1] != "folders" else (0, 0)
ADDRESS = (sys.argv[3:4] or ["127.0.0.1"])[0]
CONNECTIONS = int((sys.argv[4:5] or ["1000"])[0])
HELD = 250
MOST_SECONDS = 0.06 * CONNECTIONS
RECORDED = {"is": "hello", "job": "env-29500", "rank": 1, "challenge": "0" * 32, "proof": "1" * 64, "host": "h",
            "pid": 1}
# Version 3.1, no security, as a client; then a READY command.
GREETING = b"\xff" + b"\0" * 8 + b"\x7f\x03\x01NULL" + b"\0" * 16 + b"\0" * 32
READY = b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x04PUSH"


def listening_ports(pid):
    inodes = set()
    if os.getuid() == 0:
        os.seteuid(0)
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in open(f"/proc/{pid}/net/{table}").readlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                ports.add(int(fields[1].split(":")[1], 16))
    if os.getuid() == 0:
        os.seteuid(Folders.NOBODY)
    return sorted(ports)


def connect(port, timeout=1.0):
    return socket.create_connection((ADDRESS, port), timeout)


def kind_of(port):
    """The listener's kind by what it says first; Gloo's says nothing. Asked again where there is no room at once."""
    for _ in range(20):
        with connect(port) as one:
            one.settimeout(0.5)
            try:
                first = one.recv(64)
            except OSError:
                return None
        if first.startswith(b'{"text":"'):
            return "lockstep"
        if first.startswith(b"\xff"):
            return "zmq"
    return None


def memory_kb(pid):
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    return 0


def attack(port, kind):
    """Once each; returns the number of connections."""
    held = []
    for _ in range(HELD):
        try:
            held.append(connect(port, 0.2))
        except OSError:
            break
    messages = [os.urandom(4096), b"GET / HTTP/1.1\r\n\r\n", b"{" * 4000 + b"\n", b"[]\n" * 1000, b"\n" * 4000,
                b"x" * (4 << 20)]
    if kind == "zmq":
        frame = b"\x02" + (1 << 62).to_bytes(8, "big")
        messages += [GREETING, GREETING + READY + frame + b"x" * (1 << 20), GREETING + frame + b"x" * (1 << 20),
                     GREETING + READY + b"\0\x04abcd"]
    if kind == "lockstep":
        hellos = (RECORDED, dict(RECORDED, proof="f" * 128), dict(RECORDED, rank=1e300), {"is": "hello"})
        messages += [json.dumps(hello).encode() + b"\n" for hello in hellos]
    for message in messages:
        one = connect(port)
        held.append(one)
        one.settimeout(0.3)
        try:
            one.sendall(message)
        except OSError:
            pass  # closed by the listener, or not read to the end
    for _ in range(10):
        for one in held[:20]:
            try:
                one.send(b"{")
            except OSError:
                pass
        time.sleep(0.02)
    for one in held:
        one.close()
    return len(held)


class Folders:
    """A shared folder, and a stranger who is at work in it."""

    NOBODY = 65534
    CODE = "import os\nopen('{}/' + str(os.getpid()), 'w').close()\n"
    NAMES = ("rank-0.json", "rank-0.json.new", "rank-0.trace.json", "rank-0.trace.json.gz", "rank-0.trace.json.tmp")

    def __init__(self, made_by_stranger):
        self.top = pathlib.Path(tempfile.mkdtemp())
        self.top.chmod(0o755)
        self.shared, self.temporary, self.ran = (self.top / name for name in ("shared", "tmp", "ran"))
        for folder in (self.shared, self.temporary, self.ran):
            folder.mkdir()
            folder.chmod(0o1777)
        self.precious = self.top / "precious"
        self.precious.write_text("precious")
        self.precious.chmod(0o600)
        if made_by_stranger:
            self.shared.chmod(0o777)
            os.chown(self.shared, self.NOBODY, self.NOBODY)

    def plant(self, folder):
        for path in (folder, folder / "lockstep_recorder"):
            with contextlib.suppress(OSError):
                path.mkdir()
        for name in ("sitecustomize.py", "lockstep_recorder/__init__.py", "programs/python3"):
            with contextlib.suppress(OSError):
                if (folder / name).read_text() != self.CODE.format(self.ran):
                    (folder / name).unlink()
            with contextlib.suppress(OSError):
                (folder / name).write_text(self.CODE.format(self.ran))
                (folder / name).chmod(0o755)

    def meddle(self, path):
        """With a folder of the user's."""
        for file in ("options.json", "sitecustomize.py"):
            with contextlib.suppress(OSError):
                (path / file).read_bytes()
                (self.ran / "read").touch()
        self.plant(path)
        path.rename(path.with_name(path.name + ".away"))
        self.plant(path)

    def attack(self, until):
        """In a process of its own. Whatever it reads goes into a file beside the shared folder."""
        os.setgroups([])
        os.setgid(self.NOBODY)
        os.setuid(self.NOBODY)
        for pid in range(until, until + 300):
            self.plant(self.shared / f".recorder-{socket.gethostname()}-{pid}")
        (self.ran / "begun").touch()
        while True:
            for path in [*self.shared.iterdir(), *self.temporary.iterdir()]:
                with contextlib.suppress(OSError):
                    if not path.name.startswith((".recorder", "lockstep-")):
                        continue
                    if path.stat().st_uid != self.NOBODY:
                        self.meddle(path)
                    elif (path / "options.json").exists():
                        self.plant(path)
            # Later than the search for an earlier recording.
            if any(".recorder" in path.name or "lockstep-" in path.name for path in self.temporary.iterdir()):
                for name in self.NAMES:
                    with contextlib.suppress(OSError):
                        (self.shared / name).symlink_to(self.precious)

    def record(self, program):
        """Returns how many processes ran the stranger's code, files that were changed, and files that were read."""
        stranger = os.fork()
        if stranger == 0:
            try:
                self.attack(os.getpid())
            finally:
                os._exit(1)
        try:
            while not (self.ran / "begun").exists():
                time.sleep(0.01)
            script = "for i in 1 2 3; do python3 -c 'import time; time.sleep(0.3)'; done"
            done = subprocess.run([program, "record", "--keep", self.shared, "--", "sh", "-c", script], text=True,
                                  env=dict(os.environ, TMPDIR=str(self.temporary)), capture_output=True)
            print(f"exit code {done.returncode}: {done.stderr.strip()}")
            left = [path.name for path in self.temporary.iterdir()]
            print(f"left: {left}")
            ran = {path.name for path in self.ran.iterdir()} - {"begun"}
            return len(ran - {"read"}), int(self.precious.read_text() != "precious"), len(ran & {"read"})
        finally:
            os.kill(stranger, signal.SIGKILL)
            os.waitpid(stranger, 0)
            shutil.rmtree(self.top)


def attack_folders(program):
    counts = [Folders(made_by_stranger).record(program) for made_by_stranger in (False, True)]
    for name, count in zip(("ran", "changed", "read"), map(sum, zip(*counts))):
        print(f"{name}: {count}")


def main():
    if sys.argv[1] == "folders":
        return attack_folders(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, max(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
    kinds, counts = {}, {}
    before = most = memory_kb(PID)
    end = time.monotonic() + MOST_SECONDS
    try:
        while len(counts) < LISTENERS or min(counts.values()) < CONNECTIONS:
            if time.monotonic() > end or not memory_kb(PID):
                break
            # They come and go: some are for a moment only.
            for port in listening_ports(PID):
                try:
                    if port not in kinds:
                        kinds[port] = kind_of(port)
                        before = most = memory_kb(PID)
                    if kinds[port]:
                        counts[port] = counts.get(port, 0) + attack(port, kinds[port])
                        most = max(most, memory_kb(PID))
                except ConnectionRefusedError:
                    continue
    except FileNotFoundError:
        print("the process has ended")
    for port, count in counts.items():
        print(f"{kinds[port]}: {count} connections")
    print(f"listeners: {sum(count >= CONNECTIONS for count in counts.values())}")
    print(f"grown: {max(0, most - before)} kB")


main()
