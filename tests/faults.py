#!/usr/bin/env python3
"""Random faults in short jobs, and whether each ends as documented.

    faults.py PROGRAM [--runs 150] [--seed 1000] [--kinds kill,stop,exit,disk,port,parent,mpirun] [--backends ...]

    faults.py PROGRAM --two-hosts [--runs 30]     two hosts of two ranks, as network namespaces (wants root): kill, stop,
                                                  host (all ranks of one), twice (a rank number), cable (link down)

Each run prints its seed, and `--runs 1 --seed N` repeats it. A job is a sweep of short rows; a fault comes while it
starts, runs or ends:

    kill    SIGKILL to a rank              exit    a rank of its own accord ends (SIGTERM)
    stop    SIGSTOP to a rank              disk    the disk of --json is full
    parent  SIGKILL to the parent          port    MASTER_PORT is in use
    mpirun  SIGKILL to mpirun

Judged: the job ends in time, the right rank is named (or the file, port, process), the exit code is the documented one,
what was measured is kept and `show` reads it, and no process, socket or file is left.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

TIMEOUT_S = 5
JOIN_S = 8
KINDS = ["kill", "stop", "exit", "disk", "port", "parent", "mpirun"]
PHASES = ["starting", "running", "ending"]


def children_of(mark):
    """Living processes with the mark in their environment: {pid: (name, environment)}."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            environment = open(f"/proc/{entry}/environ", "rb").read().split(b"\0")
            if mark.encode() in environment and open(f"/proc/{entry}/stat").read().rsplit(") ", 1)[1][0] != "Z":
                found[int(entry)] = (open(f"/proc/{entry}/comm").read().strip(), environment)
        except (OSError, IndexError):
            continue
    return found


def rank_of(environment):
    for name in (b"LOCKSTEP_RANK=", b"OMPI_COMM_WORLD_RANK=", b"RANK="):
        for entry in environment:
            if entry.startswith(name):
                return int(entry[len(name):])
    return None


class Run:
    def __init__(self, options, seed):
        self.options, self.seed = options, seed
        self.random = random.Random(seed)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"lockstep-fault-{seed}-"))
        self.mark = f"LOCKSTEP_FAULT={seed}-{os.getpid()}"
        self.json = self.folder / "out" / "r.json"
        (self.folder / "out").mkdir()
        (self.folder / "tmp").mkdir()
        self.mounted = False
        self.problems = []

    def choose(self):
        self.kind = self.random.choice(self.options.kinds.split(","))
        self.backend = self.random.choice(self.options.backends.split(","))
        if self.kind == "mpirun":
            self.backend = "mpi"
        if self.kind in ("kill", "stop", "exit") and self.backend == "thread":
            self.backend = "gloo"
        self.phase = self.options.phase or self.random.choice(PHASES)
        self.ranks = self.random.choice([2, 3])
        self.victim = self.random.randrange(self.ranks)
        self.fraction = self.random.random()

    def steps(self):
        return 100 if self.phase == "ending" else 250

    def command(self):
        return [self.options.program, "bench", "--model", "lenet5,mlp", "--ranks", str(self.ranks), "--batch", "2",
                "--steps", str(self.steps()), "--warmup", "0", "--no-controls", "--threads", "1",
                "--bind", "none", "--timeout", str(TIMEOUT_S), "--join-timeout", str(JOIN_S), "--backend", self.backend,
                "--json", str(self.json)] + (["--launch", "threads"] if self.backend == "thread" else [])

    def environment(self, **more):
        name, value = self.mark.split("=")
        return dict(os.environ, CUDA_VISIBLE_DEVICES="", TMPDIR=str(self.folder / "tmp"), **{name: value}, **more)

    def rows(self):
        """Finished rows, and steps of the unfinished one, in the live file."""
        for path in (self.json, pathlib.Path(f"{self.json}.partial")):
            try:
                runs = json.loads(path.read_text())["lockstep"]["runs"]
                return sum("unfinished" not in run or not run["unfinished"] for run in runs), len(runs)
            except (OSError, ValueError, KeyError):
                continue
        return 0, 0

    def has_all(self):
        """Whether the file of --json has every row, and no note that something is missing."""
        return self.json.exists() and not json.loads(self.json.read_text())["lockstep"].get("incomplete")

    def wait_for_phase(self, job):
        if self.phase == "starting":
            time.sleep(self.fraction * 1.2)
            return
        wanted = 1 if self.phase == "running" else 2
        end = time.monotonic() + 60
        while job.poll() is None and time.monotonic() < end:
            done, all_rows = self.rows()
            if (wanted == 1 and all_rows >= 1) or done >= wanted:
                break
            time.sleep(0.01)
        if self.phase == "running":
            time.sleep(self.fraction * 0.5)

    def process_of(self, job):
        if self.kind == "parent":
            return job.pid
        for pid, (name, environment) in sorted(children_of(self.mark).items()):
            if self.kind == "mpirun":
                if name.startswith("mpirun"):
                    return pid
            elif rank_of(environment) == self.victim and name == "lockstep":
                return pid
        return None

    def go(self):
        self.choose()
        port = socket.socket()
        more = {}
        command = self.command()
        if self.kind == "port":
            # A rank by hand: a second one never comes, for rank 0 cannot listen.
            port.bind(("127.0.0.1", 0))
            port.listen(1)
            more = dict(RANK="0", WORLD_SIZE=str(self.ranks), LOCAL_RANK="0", LOCAL_WORLD_SIZE="1",
                        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port.getsockname()[1]))
            if self.backend == "thread":
                command = [word for word in command if word not in ("--launch", "threads")]
                command[command.index("thread")] = "gloo"
        if self.kind == "disk":
            mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(self.folder / "out")],
                                   stderr=subprocess.DEVNULL)
            self.mounted = mount.returncode == 0
        before = set(os.listdir("/dev/shm"))
        job = subprocess.Popen(command, stdout=open(self.folder / "stdout", "wb"),
                               stderr=open(self.folder / "stderr", "wb"), env=self.environment(**more))
        struck = self.kind in ("port", "disk")
        if self.kind == "disk":
            self.wait_for_phase(job)
            struck = job.poll() is None
            with open(self.folder / "out" / "fill", "wb", buffering=0) as filler:
                try:
                    while True:
                        filler.write(b"x" * 1024)
                except OSError:
                    pass
        elif self.kind != "port":
            self.wait_for_phase(job)
            signals = {"stop": signal.SIGSTOP, "exit": signal.SIGTERM}
            end = time.monotonic() + (5 if self.phase == "starting" else 0)
            while not struck and job.poll() is None:
                pid = self.process_of(job)
                if pid:
                    try:
                        os.kill(pid, signals.get(self.kind, signal.SIGKILL))
                        struck = True
                    except ProcessLookupError:
                        pass
                if time.monotonic() >= end:
                    break
                time.sleep(0.01)
        begin = time.monotonic()
        limit = TIMEOUT_S + JOIN_S + 20 if self.kind != "disk" else 90
        try:
            self.code = job.wait(limit)
        except subprocess.TimeoutExpired:
            self.code = None
        self.seconds = time.monotonic() - begin
        port.close()
        # Rank 0 outlives a killed parent by two seconds, in which it reports.
        end = time.monotonic() + 6
        while time.monotonic() < end and (children_of(self.mark) or set(os.listdir("/dev/shm")) - before):
            time.sleep(0.05)
        self.error = (self.folder / "stderr").read_text(errors="replace")
        self.judge(struck, before)

    def expect(self, right, problem):
        if not right:
            self.problems.append(problem)

    def judge(self, struck, before):
        if self.code is None:
            self.problems.append(f"still running after {self.seconds:.0f} s")
        complete = self.code == 0
        self.missed = not struck or complete
        # A fault that came when the work was done, or never: the results are complete.
        if self.missed:
            self.expect(complete or not struck, f"exit code {self.code}")
        else:
            self.judge_words()
        self.judge_files(complete)
        left = children_of(self.mark)
        self.expect(not left, f"processes left: {[name for name, _ in left.values()]}")
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        mine = [name for name in set(os.listdir("/dev/shm")) - before if name.startswith(("lockstep", "vader"))]
        self.expect(not mine, f"left in /dev/shm: {mine}")
        rest = [str(p.relative_to(self.folder)) for p in (self.folder / "tmp").rglob("*")]
        self.expect(not rest, f"left in TMPDIR: {rest[:4]}")
        hidden = [p.name for p in (self.folder / "out").iterdir() if p.name.startswith(".") or p.name.endswith(".tmp")]
        self.expect(not hidden, f"hidden files: {hidden}")

    def judge_words(self):
        who = f"rank {self.victim} (host "
        codes = {"kill": 1, "stop": 1, "exit": 143, "parent": -9, "mpirun": 1, "port": 2, "disk": 1}
        errors = [line for line in self.error.splitlines() if "error:" in line]
        first = errors[0] if errors else ""
        if self.kind == "exit" and self.code == 1 and "killed by SIGTERM" in first:
            self.expect(who in first and self.phase == "starting", f"wrong rank: {first}")
            return
        if self.kind == "disk" and self.code == 2:
            codes["disk"] = 2  # refused before the start
        self.expect(self.code == codes[self.kind], f"exit code {self.code}, not {codes[self.kind]}")
        if self.kind in ("kill", "stop", "exit"):
            words = {"kill": "killed by SIGKILL", "stop": "is stopped", "exit": "told to end by SIGTERM"}
            stopped = self.kind == "stop" and self.phase == "starting"
            named = who in first and words[self.kind] in first
            missing = stopped and re.search(rf"ranks? ([0-9], )*{self.victim}\b.* did not", first)
            self.expect(named or missing, f"wrong words: {first}")
            self.expect("pid 0" not in first, "pid 0")
        if self.kind == "port":
            self.expect("is in use" in first, f"wrong words: {first}")
        if self.kind == "mpirun":
            self.expect("mpirun was killed by SIGKILL" in first, f"wrong words: {first}")
        # Ranks that had finished have nothing to report.
        if self.kind == "parent" and self.phase != "starting" and self.backend != "thread" and not self.has_all():
            self.expect("the process that started the ranks" in self.error, "no word of the parent")
        if self.kind == "disk":
            self.expect("cannot write" in self.error or "No space" in self.error, f"wrong words: {first}")
        self.expect("[json.exception" not in self.error and "terminate called" not in self.error, "raw text")

    def judge_files(self, complete):
        files = [p for p in (self.json, pathlib.Path(f"{self.json}.partial")) if p.exists()]
        for path in files:
            if self.kind == "disk" and path.stat().st_size == 0:
                continue
            shown = subprocess.run([self.options.program, "show", str(path)], capture_output=True, text=True)
            self.expect(shown.returncode == 0, f"show refuses {path.name}: {shown.stderr[-200:]}")
            if shown.returncode == 0:
                incomplete = json.loads(path.read_text())["lockstep"].get("incomplete")
                self.expect(incomplete or self.rows() == (2, 2), "an incomplete result that does not say so")
        if complete and self.kind != "disk":
            self.expect(self.json.exists(), "no result")

    def clean(self):
        if self.mounted:
            subprocess.run(["umount", "-l", str(self.folder / "out")])
        if not self.problems or not self.options.keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    def line(self):
        what = f"{self.kind} {self.phase} {self.backend} {self.ranks} ranks"
        if self.kind in ("kill", "stop", "exit"):
            what += f" rank {self.victim}"
        state = "; ".join(self.problems) if self.problems else "after the end" if self.missed else "ok"
        return f"{self.seed}: {what}: code {self.code} after {self.seconds:.1f} s: {state}"


class TwoHosts(Run):
    """Ranks 0 and 1 on one host, 2 and 3 on the other."""

    def choose(self):
        self.kind = self.random.choice(["kill", "stop", "host", "twice", "cable"])
        self.backend, self.ranks, self.missed = "gloo", 4, False
        self.phase = "starting" if self.kind == "twice" else self.random.choice(["starting", "running"])
        self.victim = self.random.randrange(4)
        self.fraction = self.random.random()

    def steps(self):
        return 2000

    def start(self, rank):
        host = self.options.hosts[rank // 2]
        place = dict(RANK=str(rank), WORLD_SIZE="4", LOCAL_RANK=str(rank % 2), LOCAL_WORLD_SIZE="2",
                     MASTER_ADDR="198.51.100.1", MASTER_PORT=str(20000 + self.seed % 10000), LOCKSTEP_TOKEN="0123" * 8)
        command = ["nsenter", "--target", str(host), "--net", "--uts"] + self.command()
        return subprocess.Popen(command, stdout=subprocess.DEVNULL,
                                stderr=open(self.folder / f"stderr{rank}", "ab"), env=self.environment(**place))

    def go(self):
        self.choose()
        jobs = [self.start(rank) for rank in range(4)]
        again = None
        if self.kind == "twice":
            again = self.start(self.victim)
        self.wait_for_phase(jobs[0])
        near = [0, 1] if self.victim < 2 else [2, 3]
        victims = [] if self.kind in ("twice", "cable") else near if self.kind == "host" else [self.victim]
        for rank in victims:
            jobs[rank].send_signal(signal.SIGSTOP if self.kind == "stop" else signal.SIGKILL)
        link = ["nsenter", "--target", str(self.options.hosts[0]), "--net", "ip", "link", "set", "b0"]
        if self.kind == "cable":
            subprocess.run(link + ["down"], check=True)
        begin = time.monotonic()
        if again:
            self.judge_twice(jobs, again)
        alive = [rank for rank in range(4) if rank not in victims and not again]
        self.codes = []
        for rank in alive:
            try:
                self.codes.append(jobs[rank].wait(max(0.1, begin + TIMEOUT_S + JOIN_S + 15 - time.monotonic())))
            except subprocess.TimeoutExpired:
                self.problems.append(f"rank {rank} still runs")
        self.seconds = time.monotonic() - begin
        for job in jobs:
            if job.poll() is None:
                job.send_signal(signal.SIGKILL)
            job.wait()
        if self.kind == "cable":
            subprocess.run(link + ["up"], check=True)
        self.code = self.codes[0] if self.codes else None
        said = [(self.folder / f"stderr{rank}").read_text(errors="replace") for rank in range(4)]
        self.error = "\n".join(text[-400:] for text in said)
        if not again:
            self.expect(all(code == 1 for code in self.codes), f"exit codes {self.codes}")
            named = victims or [0, 1, 2, 3]
            for host in ([0, 1], [2, 3]):
                living = [rank for rank in host if rank in alive]
                # Rank 0 speaks for all hosts, as long as it is there and others can hear it.
                if not living or (0 in alive and host != [0, 1] and self.kind != "cable"):
                    continue
                words = "".join(said[rank] for rank in living)
                right = any(f"rank {rank} (host" in words for rank in named)
                missing = self.phase == "starting" and re.search(
                    "did not|waited for rank 0|lets nobody in|cannot connect|No route|did not answer", words)
                self.expect(right or missing, f"nobody on host {host} names a rank")
        self.judge_files(False)
        self.expect(not children_of(self.mark), "processes left")

    def judge_twice(self, jobs, again):
        end = time.monotonic() + JOIN_S
        contenders = [jobs[self.victim], again]
        while time.monotonic() < end and all(job.poll() is None for job in contenders):
            time.sleep(0.05)
        said = (self.folder / f"stderr{self.victim}").read_text(errors="replace")
        # Two processes for rank 0: the later one finds its port taken.
        self.expect("is there already" in said or "is in use" in said, "not named")
        for job in jobs + [again]:
            if job.poll() is None:
                job.send_signal(signal.SIGKILL)
        again.wait()


def make_hosts():
    hosts = []
    for name in ("hosta", "hostb"):
        # However this process ends, its hosts end with it.
        hosts.append(subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--uts", "sh", "-c",
                                       f"hostname {name}; exec sleep 86400"]).pid)
    time.sleep(0.5)
    inside = [["nsenter", "--target", str(host), "--net", "ip"] for host in hosts]
    subprocess.run(inside[0] + ["link", "add", "b0", "type", "veth", "peer", "name", "b0", "netns", str(hosts[1])],
                   check=True)
    for number, ip in enumerate(inside, 1):
        subprocess.run(ip + ["link", "set", "lo", "up"], check=True)
        subprocess.run(ip + ["address", "add", f"198.51.100.{number}/24", "dev", "b0"], check=True)
        subprocess.run(ip + ["link", "set", "b0", "up"], check=True)
    return hosts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--runs", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--backends", default="thread,gloo,mpi")
    parser.add_argument("--phase", choices=PHASES)
    parser.add_argument("--keep", action="store_true", help="keep the folders of runs with problems")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no run after so many")
    parser.add_argument("--two-hosts", action="store_true")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if os.geteuid() == 0 and not options.inside:
        # A /dev/shm of its own, in which nobody else leaves files.
        script = 'mount -t tmpfs none /dev/shm && exec "$0" "$@" --inside'
        os.execvp("unshare", ["unshare", "--mount", "sh", "-c", script, sys.executable] + sys.argv)
    options.hosts = make_hosts() if options.two_hosts else []
    counts = collections.Counter()
    begin = time.monotonic()
    for seed in range(options.seed, options.seed + options.runs):
        if time.monotonic() - begin > options.seconds:
            break
        run = (TwoHosts if options.two_hosts else Run)(options, seed)
        try:
            run.go()
        finally:
            run.clean()
        counts["problem" if run.problems else "after the end" if run.missed else "ok"] += 1
        print(run.line(), flush=True)
        if run.problems:
            print("    " + run.error[-600:].strip().replace("\n", "\n    "), flush=True)
    for host in options.hosts:
        os.kill(host, signal.SIGKILL)
    print(", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
    sys.exit(1 if counts["problem"] else 0)


if __name__ == "__main__":
    main()
