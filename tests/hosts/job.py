"""A job of lockstep on the hosts of hosts.py, which tests end in many ways, and whatever it leaves behind."""
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time

import hosts

PORT = 29400
TOKEN = "0123" * 8
MARK = "LOCKSTEP_TEST_JOB=1"
OUT = hosts.SHARED / "out"
# What others leave in /tmp.
FOREIGN = re.compile(r"/tmp/(torchelastic_|torchinductor_|pymp-|tmp|\.cache)")


def processes():
    """Of this namespace of processes: {pid: (name, environment)}, the dead left out."""
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, IndexError):
            name, rest = pathlib.Path(f"/proc/{entry}/stat").read_text().split("(", 1)[1].rsplit(") ", 1)
            if rest[0] not in "ZX":
                found[int(entry)] = (name, pathlib.Path(f"/proc/{entry}/environ").read_bytes().split(b"\0"))
    return found


def memory_group():
    """The folder of a new group of processes with 16 MB of memory, to be removed; None: nobody may make one."""
    for folder, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        group = pathlib.Path(folder) / f"lockstep-test-{os.getpid()}-{time.monotonic_ns()}"
        with contextlib.suppress(OSError):
            group.mkdir()
            if (group / limit).exists():
                (group / limit).write_text(str(16 << 20))
                return group
            group.rmdir()
    return None


def fill_memory(group, pid):
    """Until the kernel kills a process of the group, `pid` first, because it is the largest."""
    (group / "cgroup.procs").write_text(str(pid))
    hog = "import sys; open(sys.argv[1], 'w').write('0')\nx = []\nwhile True: x.append(b'x' * 65536)"
    subprocess.run([sys.executable, "-S", "-c", hog, str(group / "cgroup.procs")], stderr=subprocess.DEVNULL)


class Job:
    """Processes by key: of each rank where they are on two hosts, two on each; else the one that starts all is 0."""

    def __init__(self, network, on_two_hosts):
        self.network, self.on_two_hosts = network, on_two_hosts
        self.processes = {}
        # Rank 0's view: a folder may be a disk of its own there.
        self.out = self.files_of("h0") / OUT.relative_to("/")

    def files_of(self, host):
        """A host's files, seen from here."""
        return pathlib.Path(f"/proc/{self.network.holders[host].pid}/root")

    def host_of(self, rank):
        return f"h{rank // 2}" if self.on_two_hosts else "h0"

    def on_host(self, host, *words):
        return subprocess.run(self.network.words(host, *words), stderr=subprocess.DEVNULL).returncode == 0

    def listen(self):
        """A stranger's process that has taken the job's port."""
        code = f"import socket, time; s = socket.create_server(('', {PORT})); print(flush=True); time.sleep(600)"
        listener = self.network.start("h0", [sys.executable, "-c", code], stdout=subprocess.PIPE)
        listener.stdout.readline()
        return listener

    def start(self, command, rank=0, key=None):
        place = {}
        if self.on_two_hosts:
            place = dict(RANK=str(rank), WORLD_SIZE="4", LOCAL_RANK=str(rank % 2), LOCAL_WORLD_SIZE="2",
                         MASTER_ADDR=self.network.address("h0"), MASTER_PORT=str(PORT), LOCKSTEP_TOKEN=TOKEN)
        name, value = MARK.split("=")
        environment = dict(os.environ, CUDA_VISIBLE_DEVICES="", TMPDIR="/tmp", **{name: value}, **place)
        key = rank if key is None else key
        with open(hosts.SHARED / f"stdout{key}", "wb") as out, open(hosts.SHARED / f"stderr{key}", "wb") as error:
            self.processes[key] = self.network.start(self.host_of(rank), command, env=environment,
                                                     stdin=subprocess.DEVNULL, stdout=out, stderr=error)

    def runs(self):
        """Whether some process has not ended."""
        return any(process.poll() is None for process in self.processes.values())

    def said(self, *keys):
        return "".join((hosts.SHARED / f"stderr{key}").read_text(errors="replace") for key in keys or self.processes)

    def printed(self, key):
        return (hosts.SHARED / f"stdout{key}").read_text(errors="replace")

    def record(self):
        """The rows in the file of --json, which is there from the first second on; and whether some are missing."""
        for path in (self.out / "r.json", self.out / "r.json.partial"):
            with contextlib.suppress(OSError, ValueError, KeyError):
                record = json.loads(path.read_text())["lockstep"]
                return record["runs"], bool(record["incomplete"])
        return [], False

    def pid_of(self, rank):
        """Of a rank, -1: of mpirun; None where there is no such process."""
        if self.on_two_hosts:
            return self.processes[rank].pid
        marks = (f"LOCKSTEP_RANK={rank}".encode(), f"OMPI_COMM_WORLD_RANK={rank}".encode())
        for pid, (name, environment) in processes().items():
            if name == "mpirun" if rank < 0 else name == "lockstep" and any(mark in environment for mark in marks):
                return pid
        return None

    def left(self):
        """Names of processes, listening sockets, files and namespaces that are there after the job."""
        alive = processes()
        found = [f"process {name}" for name, environment in alive.values() if MARK.encode() in environment]
        for host, holder in self.network.holders.items():
            for table in ("tcp", "tcp6"):
                lines = pathlib.Path(f"/proc/{holder.pid}/net/{table}").read_text().splitlines()[1:]
                found += [f"socket {line.split()[1]} on {host}" for line in lines if line.split()[3] == "0A"]
            for folder in ("tmp", "dev/shm"):
                for path in (self.files_of(host) / folder).iterdir():
                    own = not FOREIGN.match(f"/{folder}/{path.name}")
                    if own and not hosts.ROOT.is_relative_to(pathlib.Path("/", folder, path.name)):
                        found.append(f"/{folder}/{path.name} on {host}")
        spaces = set()
        for pid in alive:
            with contextlib.suppress(OSError):
                spaces.add(os.readlink(f"/proc/{pid}/ns/net"))
        found += ["a namespace"] * (len(spaces) > 1 + len(self.network.holders))
        return found + [f"hidden file {path.name}" for path in self.out.iterdir() if path.name.startswith(".")]


def of_another_version(program):
    """A copy of the program that says it is of another version; it finds the plugins by the environment."""
    program, copy = pathlib.Path(program), hosts.SHARED / "lockstep"
    if not copy.exists():
        said = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
        version = re.search(r"[\d.]+", said)[0]
        other = version[:-1] + ("8" if version[-1] == "9" else "9")
        copy.write_bytes(program.read_bytes().replace(version.encode() + b"\0", other.encode() + b"\0"))
        copy.chmod(0o755)
        os.environ.setdefault("LOCKSTEP_PLUGIN_PATH", str(program.parent / "plugins"))
    return str(copy)
