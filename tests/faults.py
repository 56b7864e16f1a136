#!/usr/bin/env python3
"""Random faults in short jobs, and whether each ends as docs/errors.md says.

    faults.py PROGRAM [--runs 40] [--first 1] [--jobs 2] [--commands bench,train] [--kinds kill,down] [--places hosts]
              [--log FILE]

A run follows from the commands, the kinds and its seed, the first word of its line: `--first SEED --runs 1` repeats it.
Every second is a bench; the others train, record, compare, predict --verify, measure collectives or links, with a choice
of these faults of their own (hosts/command_job.py). The ranks are threads of one process, processes that lockstep or its
mpirun starts, or two processes on each of two hosts (hosts/hosts.py), and the fault comes while they start, train or end.

Judged: the job ends in time; the right rank, host and cause are named, once on each host that cannot hear the other;
the exit code is the documented one; `show` reads what was measured; no process, listening socket, shared memory,
temporary file or namespace is left. --jobs: so many at a time. Exit code 1: some run was not as documented.
"""
import argparse
import collections
import contextlib
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "hosts"))
import hosts  # noqa: E402
from command_job import CommandFault, usable_commands  # noqa: E402
from job import OUT, fill_memory, memory_group, of_another_version  # noqa: E402
from judged_job import CUT, SURVIVED, JudgedJob  # noqa: E402

TIMEOUT_S = 3
JOIN_S = 8
PATIENCE_S = 120  # for processes that share a busy machine
# The places of each kind: t(hreads), p(rocesses), h(osts).
KINDS = {
    "kill": "tph",      # SIGKILL
    "abort": "ph",      # SIGABRT
    "memory": "ph",     # its memory group is full: the kernel kills it
    "exit": "tph",      # SIGTERM
    "stop": "ph",       # SIGSTOP for good
    "pause": "tph",     # SIGSTOP for a second
    "server": "h",      # SIGKILL to rank 0, which hosts the job's server
    "pair": "h",        # SIGKILL to two ranks, one after the other
    "host": "h",        # SIGKILL to all ranks of a host
    "parent": "p",      # SIGKILL to the lockstep that started the ranks
    "mpirun": "p",      # SIGKILL to its mpirun
    "down": "h",        # a host's cable is pulled
    "oneway": "h",      # nothing arrives that the host sends
    "slow": "h",        # its link has 1 % of a gigabit
    "loss": "h",        # its link loses 2 % of the packets
    "disk": "tph",      # the disk of --json is full
    "readonly": "tph",  # it can only be read
    "late": "h",        # a rank starts 2 s late
    "missing": "h",     # a rank does not start
    "twice": "h",       # a rank is started twice
    "arguments": "h",   # a rank has another batch
    "version": "h",     # a rank is of another version
    "port": "h",        # MASTER_PORT is in use
}
STARTING = {"late", "missing", "twice", "arguments", "version", "port"}
ALL_COME = {"pause", "late", "twice", "arguments", "version"}
SIGNALS = {"abort": signal.SIGABRT, "exit": signal.SIGTERM, "stop": signal.SIGSTOP, "pause": signal.SIGSTOP}


class Fault(JudgedJob):
    """A job with a fault; `network` is as new before and afterwards, but for problems."""

    def __init__(self, network, seed, options):
        self.seed = seed
        draw = random.Random(seed)
        self.kind = draw.choice([kind for kind in options.kinds if set(KINDS[kind]) & set(options.places)])
        self.place = draw.choice([place for place in KINDS[self.kind] if place in options.places])
        self.backend = {"t": "thread", "h": "gloo"}.get(self.place) or draw.choice(["gloo", "mpi"])
        if self.kind == "mpirun":
            self.backend = "mpi"
        self.ranks = 4 if self.place == "h" else draw.choice([2, 3])
        victim = draw.randrange(self.ranks)
        self.victims = {"server": [0], "host": draw.choice([[0, 1], [2, 3]])}.get(self.kind, [victim])
        if self.kind == "pair":
            self.victims = draw.sample(range(4), 2)
        self.host = f"h{draw.randrange(2)}"
        phases = ["running"] if self.kind in ("slow", "memory") else ["starting", "running", "ending"]
        self.phase = "starting" if self.kind in STARTING else draw.choice(phases)
        self.wait_s = draw.random()
        # Rows that end by themselves soon, or not before the fault.
        self.row_s = 2.5 if self.phase == "ending" or self.kind in ("disk", "readonly") else 3
        if self.kind not in SURVIVED | {"disk", "readonly"} and self.phase != "ending":
            self.row_s = 60
        # Long where no rank is to be missed, for a machine that does much else.
        self.join_s = JOIN_S if self.phase == "starting" and self.kind not in ALL_COME else 60
        super().__init__(network, options.program, self.place == "h")

    def command(self, program=None, flags=()):
        strategy = random.Random(self.seed).choice(["ddp", "replicated", "horovod"])
        return [program or self.program, "bench", "--model", "lenet5", "--batch", "2", "--ranks",
                str(self.ranks), "--strategy", strategy, "--min-time", str(self.row_s), "--max-time", str(self.row_s),
                "--warmup", "0", "--no-controls", "--threads", "1", "--bind", "none", "--timeout", str(TIMEOUT_S),
                "--join-timeout", str(self.join_s), "--backend", self.backend, "--json", str(OUT / "r.json"),
                *(["--launch", "threads"] if self.place == "t" else []), *flags]

    def wait_for_phase(self):
        if self.phase == "starting":
            return time.sleep(1.5 * self.wait_s)
        end = time.monotonic() + 60
        while self.runs() and not self.record()[0] and time.monotonic() < end:
            time.sleep(0.02)
        time.sleep(self.wait_s + (0.7 if self.phase == "ending" else 0))

    def signal(self, rank):
        end = time.monotonic() + PATIENCE_S
        while self.runs() and time.monotonic() < end:
            whole = self.kind == "parent" or self.place == "t"
            pid = self.processes[0].pid if whole else self.pid_of(-1 if self.kind == "mpirun" else rank)
            with contextlib.suppress(ProcessLookupError):
                if pid and self.kind == "memory":
                    fill_memory(self.group, pid)
                elif pid:
                    os.kill(pid, SIGNALS.get(self.kind, signal.SIGKILL))
                if pid and self.kind == "pause":
                    time.sleep(1)
                    os.kill(pid, signal.SIGCONT)
                if pid:
                    return
            time.sleep(0.01)

    def strike(self):
        if self.kind in CUT | {"slow", "loss"}:
            if self.kind == "down":
                self.network.link(self.host, "down")
            elif self.kind == "oneway":
                # Frames to an address that no card has.
                other = self.network.address("h1" if self.host == "h0" else "h0")
                self.on_host(self.host, *f"ip neigh replace {other} lladdr 02:00:00:00:00:99 dev eth0".split())
            else:
                self.network.shape(self.host, **({"rate": "10mbit"} if self.kind == "slow" else {"loss": "2%"}))
        elif self.kind == "disk":
            with contextlib.suppress(OSError), open(self.out / "fill", "wb", buffering=0) as filler:
                while True:
                    filler.write(bytes(1024))
        elif self.kind == "readonly":
            end = time.monotonic() + 5
            while not self.on_host("h0", "mount", "-o", "remount,ro", str(OUT)) and time.monotonic() < end:
                time.sleep(0.01)
        else:
            for rank in self.victims:
                self.signal(rank)
                if self.kind == "pair":
                    time.sleep(0.3 * self.wait_s)

    def go(self):
        shutil.rmtree(OUT, ignore_errors=True)
        OUT.mkdir()
        mounted = self.kind in ("disk", "readonly")
        if mounted:
            self.on_host("h0", "mount", "-t", "tmpfs", "-o", "size=256k", "none", str(OUT))
        self.group = memory_group() if self.kind == "memory" else None
        self.listener = self.listen() if self.kind == "port" else None
        if self.phase == "starting" and mounted and self.wait_s < 0.3:
            self.strike()
        for rank in range(self.ranks if self.place == "h" else 1):
            if self.kind in ("late", "missing") and rank in self.victims:
                continue
            odd = rank in self.victims
            program = of_another_version(self.program) if odd and self.kind == "version" else None
            self.start(self.command(program, ["--batch", "4"] if odd and self.kind == "arguments" else []), rank)
        if self.kind == "late":
            time.sleep(2)
            self.start(self.command(), self.victims[0])
        elif self.kind == "twice":
            time.sleep(0.5 * self.wait_s)
            self.start(self.command(), self.victims[0], "again")
        elif self.kind not in STARTING:
            self.wait_for_phase()
            self.strike()
        self.wait()
        # Rank 0 outlives a killed parent by two seconds, in which it reports.
        end = time.monotonic() + 6
        while self.left() and time.monotonic() < end:
            time.sleep(0.05)
        self.judge()
        self.problems += [f"left: {what}" for what in self.left()]
        self.mend(mounted)

    def wait(self):
        """Until all have ended, as far as the fault lets them."""
        begin = time.monotonic()
        limit = begin + PATIENCE_S + TIMEOUT_S + (JOIN_S if self.phase == "starting" else 0)
        limit += self.row_s if self.row_s < 60 else 0
        stopped = self.victims if self.kind == "stop" and self.place == "h" else []
        twins = [self.victims[0], "again"] if self.kind == "twice" else []
        while time.monotonic() < limit:
            running = [key for key, process in self.processes.items() if process.poll() is None]
            if set(running) <= set(stopped) or any(key not in running for key in twins):
                break
            time.sleep(0.02)
        self.seconds = time.monotonic() - begin
        self.codes = {key: process.poll() for key, process in self.processes.items()}
        for key, process in self.processes.items():
            self.expect(self.codes[key] is not None or key in stopped or twins, f"rank {key} still runs")
            process.kill()
            process.wait()
        if self.listener:
            self.listener.kill()
            self.listener.wait()

    def mend(self, mounted):
        if self.kind == "down":
            self.network.link(self.host, "up")
        if self.kind == "oneway":
            self.on_host(self.host, "ip", "neigh", "flush", "dev", "eth0", "nud", "all")
        if self.kind in ("slow", "loss"):
            self.network.shape(self.host)
        if mounted:
            self.on_host("h0", "umount", "-l", str(OUT))
        if self.group:
            with contextlib.suppress(OSError):
                self.group.rmdir()

    def line(self):
        place = {"t": "threads", "p": "processes", "h": "hosts"}[self.place]
        where = self.host if self.kind in CUT | {"slow", "loss"} else f"rank {','.join(map(str, self.victims))}"
        what = f"{self.kind} {self.phase} {place} {self.backend} {self.ranks} ranks {where}"
        end = "ok, after the end" if self.after_the_end else "ok"
        codes = ",".join(str(self.codes.get(key)) for key in self.processes)
        return f"{self.seed}: {what}: code {codes} after {self.seconds:.1f} s: {'; '.join(self.problems) or end}"


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--step", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--commands", type=lambda text: text.split(","))
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=list(KINDS))
    parser.add_argument("--places", default="threads,processes,hosts")
    parser.add_argument("--log", type=pathlib.Path, help="a file to add the lines to as well")
    options = parser.parse_args()
    options.program = str(pathlib.Path(options.program).resolve())
    options.places = {place[0] for place in options.places.split(",")}
    if options.commands is None:
        # A choice of kinds is one of bench's.
        options.commands = ["bench"] if options.kinds != list(KINDS) else usable_commands()
        if "record" not in options.commands and options.first == 1 and options.kinds == list(KINDS):
            print("not on this machine, for want of .venv-dev with PyTorch (make setup-python): record", flush=True)
    return options


def drawn(network, seed, options):
    """The run of a seed: every second one a bench, if that is among the commands."""
    others = [name for name in options.commands if name != "bench"]
    if not others or ("bench" in options.commands and seed % 2 == 0):
        return Fault(network, seed, options)
    return CommandFault(network, seed, options, random.Random(f"{seed} command").choice(others))


def main():
    options = parse()
    if options.jobs > 1:
        mine = [sys.executable, *sys.argv, "--jobs", "1", "--step", str(options.jobs)]
        share = [len(range(job, options.runs, options.jobs)) for job in range(options.jobs)]
        jobs = [subprocess.Popen([*mine, "--first", str(options.first + job), "--runs", str(runs)],
                                 preexec_fn=hosts.end_with_parent)
                for job, runs in enumerate(share)]
        sys.exit(max(job.wait() for job in jobs))
    hosts.enter()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    network = hosts.Hosts(2)
    group = memory_group()
    if group:
        group.rmdir()
    lacks = [] if group else ["memory"]
    try:
        network.shape("h0", loss="1%")
    except hosts.NoNetem:
        lacks.append("loss")
    network.shape("h0")
    if lacks and options.first == 1:
        print(f"not on this machine, for want of a memory group or of netem: {', '.join(lacks)}", flush=True)
    options.kinds = [kind for kind in options.kinds if kind not in lacks]
    counts = collections.Counter()
    for seed in range(options.first, options.first + options.runs * options.step, options.step):
        fault = drawn(network, seed, options)
        fault.go()
        counts["problem" if fault.problems else "ok"] += 1
        lines = fault.line() + "\n"
        if fault.problems:
            for key in fault.processes:
                lines += "".join(f"    {key}| {line}\n" for line in fault.said(key)[-1200:].splitlines())
            network.remove()
            network = hosts.Hosts(2)
        print(lines, end="", flush=True)
        if options.log:
            with open(options.log, "a") as log:
                log.write(lines)
    print(", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
    sys.exit(1 if counts["problem"] else 0)


if __name__ == "__main__":
    main()
