"""Commands beside bench with a fault, and what their end has to be."""
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import time

import hosts
from job import OUT, processes
from judged_job import JudgedJob

TIMEOUT_S = 3
JOIN_S = 20
PATIENCE_S = 120  # for processes that share a busy machine
PYTHON = hosts.ROOT / ".venv-dev" / "bin" / "python3"
DIGITS = hosts.ROOT / "data" / "digits"
# The places of each command: t(hreads), p(rocesses), h(osts); and its backends of processes.
COMMANDS = {"train": "tph", "collectives": "tph", "topo": "tph", "compare": "p", "predict": "p", "record": "p"}
# The places of each kind, as in faults.py; folder: that of --keep is removed.
KINDS = {"kill": "ph", "abort": "ph", "exit": "tph", "stop": "ph", "pause": "tph", "parent": "p", "down": "h",
         "folder": "p"}
SIGNALS = {"kill": signal.SIGKILL, "abort": signal.SIGABRT, "exit": signal.SIGTERM, "stop": signal.SIGSTOP,
           "pause": signal.SIGSTOP, "parent": signal.SIGKILL}
WORDS = {"kill": "SIGKILL|ended without a goodbye", "abort": "SIGABRT|ended without a goodbye",
         "exit": "told to end|SIGTERM", "stop": "is stopped|went silent"}


def kinds_of(command, place):
    """The faults that a command is to end well with at a place."""
    kinds = [kind for kind, places in KINDS.items() if place in places]
    if command not in ("record", "compare"):
        kinds.remove("folder") if "folder" in kinds else None
    if command == "record":
        # Scripts have no time limit of lockstep's.
        kinds = [kind for kind in kinds if kind not in ("stop", "pause")]
    return kinds


class CommandFault(JudgedJob):
    """As Fault in faults.py, of another command."""

    def __init__(self, network, seed, options, command):
        self.seed, self.name = seed, command
        draw = random.Random(f"{seed} {command}")
        self.place = draw.choice([place for place in COMMANDS[command] if place in options.places])
        self.kind = draw.choice(kinds_of(command, self.place))
        self.backend = {"t": "thread", "h": "gloo"}.get(self.place) or draw.choice(["gloo", "mpi"])
        if command in ("record", "predict"):
            self.backend = "gloo"
        pairs = command in ("compare", "predict", "record")
        self.ranks = 4 if self.place == "h" else 2 if pairs else draw.choice([2, 3])
        self.victims = [draw.randrange(self.ranks)]
        self.host = f"h{draw.randrange(2)}"
        self.wait_s = draw.random()
        self.phase, self.struck_s = "running", None
        super().__init__(network, options.program, self.place == "h")

    def command(self):
        """Long enough for any fault."""
        job = ["--ranks", str(self.ranks), "--backend", self.backend, "--threads", "1", "--bind", "none", "--timeout",
               str(TIMEOUT_S), "--join-timeout", str(JOIN_S)]
        if self.place == "t":
            job += ["--launch", "threads"]
        if self.name == "train":
            return ["train", "--model", "lenet5", "--data", str(DIGITS), "--batch", "16", "--epochs", "10000", "--json",
                    str(OUT / "r.json"), "--checkpoint", str(OUT / "c.safetensors"), "--checkpoint-every", "20", *job]
        if self.name == "collectives":
            return ["collectives", "--sizes", "4KiB..1MiB", "--iterations", "1000000", "--json", str(OUT / "r.json"), *job]
        if self.name == "topo":
            return ["topo", "--measure", "--pair-time", "60", "--json", str(OUT / "r.json"), *job]
        if self.name == "compare":
            return ["compare", "--model", "lenet5", "--batch", "2", "--no-controls", "--row-time", "2", "--max-launches",
                    "200", "--threshold", "0.01%", "--keep", str(OUT / "kept"), "--bucket-mb", "25", *job, "--",
                    "--bucket-mb", "1"]
        if self.name == "predict":
            return ["predict", str(hosts.SHARED / "run.json"), "--what-if", "bucket=1", "--verify", "--rounds", "100",
                    "--row-time", "2"]
        script = hosts.ROOT / "tests" / "python" / "trainings" / "ddp.py"
        return ["record", "--keep", str(OUT / "kept"), "--steps", "10:20", "--", str(PYTHON), "-m",
                "torch.distributed.run", "--standalone", "--nproc-per-node", str(self.ranks), str(script), "--steps",
                "100000", "--step-s", "0.02"]

    def rank_pid(self, rank):
        if self.name == "record":
            for pid, (_, environment) in processes().items():
                if f"RANK={rank}".encode() in environment and self.recorded(rank):
                    return pid
            return None
        return self.processes[0].pid if self.place == "t" else self.pid_of(rank)

    def recorded(self, rank):
        return (self.out / "kept" / f"rank-{rank}.json").exists()

    def prepare(self):
        """The result whose changes predict verifies."""
        if self.name == "predict" and not (self.files_of("h0") / "mnt" / "run.json").exists():
            bench = [self.program, "bench", "--model", "lenet5", "--batch", "2", "--ranks", "2", "--steps", "20", "--warmup",
                     "3", "--breakdown", "--threads", "1", "--bind", "none", "--no-controls", "--json",
                     str(hosts.SHARED / "run.json")]
            subprocess.run(self.network.words("h0", *bench), check=True, capture_output=True)

    def strike(self):
        end = time.monotonic() + PATIENCE_S
        while self.runs() and time.monotonic() < end and not all(self.rank_pid(rank) for rank in range(self.ranks)):
            time.sleep(0.05)
        checkpoint = self.out / "c.safetensors"
        while self.name == "train" and self.runs() and time.monotonic() < end and not checkpoint.exists():
            time.sleep(0.05)
        # Nothing shows from outside when ranks have met.
        time.sleep((3 if self.name in ("collectives", "topo") else 1) + 2 * self.wait_s)
        pid = None
        while self.runs() and time.monotonic() < end and pid is None:
            pid = self.processes[0].pid if self.kind == "parent" else self.rank_pid(self.victims[0])
        self.struck_s = time.monotonic()
        with contextlib.suppress(ProcessLookupError, TypeError):
            if self.kind == "down":
                self.network.link(self.host, "down")
            elif self.kind == "folder":
                self.on_host("h0", "rm", "-rf", str(OUT / "kept"))
            else:
                os.kill(pid, SIGNALS[self.kind])
            if self.kind == "pause":
                time.sleep(1)
                os.kill(pid, signal.SIGCONT)
        if self.kind in ("pause", "folder"):
            time.sleep(4)
            self.expect(self.runs(), "did not survive")
            # Everyone who ends a command that survives.
            for process in self.processes.values():
                process.terminate()

    def go(self):
        shutil.rmtree(OUT, ignore_errors=True)
        OUT.mkdir()
        self.prepare()
        for rank in range(self.ranks if self.place == "h" else 1):
            self.start([self.program, *self.command()], rank)
        self.strike()
        stopped = self.victims if self.kind == "stop" and self.place == "h" else []
        end = time.monotonic() + PATIENCE_S
        others = [process for key, process in self.processes.items() if key not in stopped]
        while time.monotonic() < end and any(process.poll() is None for process in others):
            time.sleep(0.02)
        self.seconds = time.monotonic() - self.struck_s
        self.codes = {key: process.poll() for key, process in self.processes.items()}
        for key, process in self.processes.items():
            self.expect(self.codes[key] is not None or key in stopped, f"rank {key} still runs")
            process.kill()
            process.wait()
        end = time.monotonic() + (40 if self.name == "record" else 8)
        while self.left() and time.monotonic() < end:
            time.sleep(0.05)
        self.judge()
        self.problems += [f"left: {what}" for what in self.left()]
        if self.kind == "down":
            self.network.link(self.host, "up")

    def judge(self):
        everything = self.said() + "".join(self.printed(key) for key in self.processes)
        raw = r"json\.exception|filesystem error|terminate called|Segmentation"
        self.expect(not re.search(raw, everything), "raw text")
        self.judge_files()
        if self.kind in ("pause", "folder"):
            codes = {143} if self.name != "record" else set(range(-15, 256))
            codes |= {1} if self.kind == "folder" else set()
            return self.expect(set(self.codes.values()) <= codes, f"exit codes {self.codes}")
        if self.kind == "parent":
            return self.expect(self.codes[0] == -9, f"exit codes {self.codes}")
        if self.name == "record":
            how = {"kill": "was killed", "abort": "was killed", "exit": "was terminated"}[self.kind]
            first = re.search(rf"Rank {self.victims[0]} {how}", everything.replace("\n", " "))
            self.expect(first, "the rank is not named first")
            return self.expect(self.codes[0] != 0, f"exit codes {self.codes}")
        right = {143, 1} if self.kind == "exit" else {1}
        # One change of many that fails is a row of the table.
        if self.name == "predict":
            right |= {0}
        dead = self.victims if self.place == "h" and self.kind in ("kill", "abort", "stop") else []
        living = {code for key, code in self.codes.items() if key not in dead}
        self.expect(living <= right, f"exit codes {self.codes}")
        if self.kind == "down":
            here, there = ([0, 1], [2, 3])
            words = self.said(*here)
            named = any(f"rank {rank} (host" in words for rank in there) or "ranks 2, 3 did not" in words
            return self.expect(named, "h0 names nobody of h1")
        named = re.search(rf"rank {self.victims[0]} \(host .*({WORDS[self.kind]})", everything.replace("\n", " "))
        unmet = re.search(rf"ranks? ([0-9], )*{self.victims[0]}\b.* did not|waited for rank 0", everything)
        return self.expect(named or unmet or self.place == "t", "the rank is not named")

    def judge_files(self):
        """What was measured is there, and can be read."""
        for path in [*self.out.glob("r.json"), *self.out.glob("kept/*.json")]:
            with self.as_problem(f"{path.name} is no JSON"):
                json.loads(path.read_text())
        if self.name == "train" and (self.out / "c.safetensors").exists():
            resumed = [self.program, "train", "--model", "lenet5", "--data", str(DIGITS), "--batch", "16", "--epochs",
                       "10000", "--ranks", str(self.ranks), "--resume", str(OUT / "c.safetensors"), "--dry-run"]
            done = subprocess.run(self.network.words("h0", *resumed), capture_output=True, text=True)
            self.expect(done.returncode == 0, f"the checkpoint is refused: {done.stderr}")
        elif self.name == "train":
            self.expect(False, "no checkpoint")
        if self.kind == "folder":
            return
        kept = self.out / "kept"
        if self.name == "compare":
            self.expect((kept / "launches.log").exists() or self.kind == "parent", "nothing is kept")
        if self.name == "record":
            self.expect(self.recorded(0) and self.recorded(1), "a rank's file is missing")
            done = subprocess.run(self.network.words("h0", self.program, "import", str(OUT / "kept")), capture_output=True,
                                  text=True)
            self.expect(done.returncode == 0, f"import: {done.stderr[-300:]}")
            self.expect(all(path.name.startswith("rank-") for path in kept.iterdir()), "the recorder is left")

    @contextlib.contextmanager
    def as_problem(self, text):
        try:
            yield
        except (OSError, ValueError):
            self.problems.append(text)

    def line(self):
        place = {"t": "threads", "p": "processes", "h": "hosts"}[self.place]
        where = self.host if self.kind == "down" else f"rank {self.victims[0]}"
        codes = ",".join(str(self.codes.get(key)) for key in self.processes)
        what = f"{self.name} {self.kind} {place} {self.backend} {self.ranks} ranks {where}"
        return f"{self.seed}: {what}: code {codes} after {self.seconds:.1f} s: {'; '.join(self.problems) or 'ok'}"


def usable_commands():
    """Those that this machine can run, the program's own first."""
    with_torch = PYTHON.exists() and subprocess.run([PYTHON, "-c", "import torch"], capture_output=True).returncode == 0
    return ["bench", *(name for name in COMMANDS if name != "record" or with_torch)]
