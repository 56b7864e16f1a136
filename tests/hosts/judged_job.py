"""What the end of a disturbed job has to be, by docs/errors.md."""
import re
import subprocess

from job import Job

# Kinds of faults that a job survives, and those after which the hosts cannot hear each other.
SURVIVED = {"pause", "slow", "loss", "late"}
CUT = {"down", "oneway"}
# What ranks say that fail before all have met: the fault shows as somebody who does not come.
UNMET = r"did not|waited for rank 0|lets nobody in|cannot connect|No route|did not answer|is gone"


class JudgedJob(Job):
    """A job with a fault, which is `kind` of tests/faults.py in `phase` at `place`, to the ranks `victims`."""

    def __init__(self, network, program, on_two_hosts):
        super().__init__(network, on_two_hosts)
        self.program = program
        self.problems, self.after_the_end = [], False
        # By key as the processes, when they have ended.
        self.codes = {}

    def expect(self, right, problem):
        if not right:
            self.problems.append(problem)

    def judge(self):
        self.kept()
        everything = self.said()
        self.expect(not re.search(r"\[json\.exception|terminate called|Segmentation", everything), "raw text")
        codes = set(self.codes.values())
        complete = self.codes.get(0) == 0 and not self.record()[1]
        if self.kind in SURVIVED:
            return self.expect(codes == {0}, f"exit codes {self.codes}")
        if complete and self.phase == "ending":
            self.after_the_end = True
            return None
        if self.kind in ("disk", "readonly"):
            self.expect(self.codes.get(0) in (1, 2), f"exit codes {self.codes}")
            return self.expect(re.search("cannot write|No space|Read-only", everything), "no word of the disk")
        if self.kind in ("parent", "mpirun"):
            # mpirun tells its ranks to end, where lockstep has started it and is gone.
            who = ("mpirun was killed by SIGKILL" if self.kind == "mpirun"
                   else "told to end" if self.backend == "mpi" else "process that started the ranks")
            self.expect(codes == ({-9} if self.kind == "parent" else {1}), f"exit codes {self.codes}")
            # Ranks that have finished, or have not met, have nothing to report of their parent.
            runs, incomplete = self.record()
            silent = self.kind == "parent" and (self.phase == "starting" or (runs and not incomplete))
            return self.expect(who in everything or silent, "no word")
        if self.kind == "twice":
            # Of two processes for rank 0 the later one finds the port taken, or the file.
            words = "is there already|is in use|is about to write"
            return self.expect(re.search(words, everything), "the second is not named")
        if self.kind == "port":
            self.expect(self.codes.get(0) == 2 and "is in use" in self.said(0), "no word of the port")
            return self.expect(0 not in codes, f"exit codes {self.codes}")
        if self.kind in ("arguments", "version"):
            self.expect(codes == {2}, f"exit codes {self.codes}")
            # Rank 0's is what the others are compared with.
            named = self.victims == [0] or f"rank {self.victims[0]} has" in self.said(0)
            return self.expect("not started alike" in self.said(0) and named, "no word of what differs")
        if self.place == "t" and self.kind == "kill":
            return self.expect(codes == {-9}, f"exit codes {self.codes}")
        return self.judge_lost()

    def judge_lost(self):
        """A rank is lost, or nothing is heard of it."""
        ended = 143 if self.kind == "exit" else 1
        names = {"kill": "SIGKILL", "memory": "SIGKILL", "abort": "SIGABRT", "exit": "told to end",
                 "stop": "is stopped"}
        if self.backend == "mpi":
            # Its processes are mpirun's, so the ranks see only that a connection ends.
            names |= {kind: "ended without a goodbye" for kind in ("kill", "memory", "abort")}
        if self.place in "tp":
            early = self.kind == "exit" and self.phase == "starting"
            self.expect(self.codes.get(0) in ({1, 143, -15} if early else {ended}), f"exit codes {self.codes}")
            who = rf"rank {self.victims[0]} \(host h0, pid [1-9]" if self.place == "p" else ""
            # Before they have met, mpirun alone may know.
            unmet = self.phase == "starting" and re.search(
                rf"ranks? ([0-9], )*{self.victims[0]}\b.* did not|waited for rank {self.victims[0]}\b"
                rf"|mpirun noticed that process rank {self.victims[0]}\b", self.said(0))
            right = re.search(rf"{who}.*({names.get(self.kind)}{'|SIGTERM' if early else ''})", self.said(0))
            return self.expect(right or unmet or self.codes.get(0) == -15, "wrong words")
        # One of a pair may have left by itself before its turn.
        dead = [rank for rank in self.victims if self.codes.get(rank, -1) is None or self.codes.get(rank, -1) < 0]
        living = [rank for rank in range(4) if self.kind in CUT | {"exit"} or rank not in dead]
        right = {1, 143, -15} if self.kind == "exit" and self.phase == "starting" else {ended}
        self.expect(all(self.codes.get(rank) in right for rank in living), f"exit codes {self.codes}")
        # Rank 0 speaks for all who can hear it, in its place one of each host. What h1 sends may be lost alone.
        deaf = self.kind == "down" or (self.kind == "oneway" and self.host == "h0")
        groups = [[0, 1], [2, 3]] if deaf else [[0, 1]] if 0 in living else [[0, 1, 2, 3]]
        for host in groups:
            here = [rank for rank in host if rank in living]
            named = [rank for rank in range(4) if rank not in host] if self.kind in CUT else self.victims
            words = self.said(*here)
            unmet = self.phase == "starting" and re.search(UNMET, words)
            right = any(f"rank {rank} (host {self.host_of(rank)}, pid " in words for rank in named)
            if self.kind == "stop" and right:
                right = re.search("is stopped|went silent", words)
            if self.kind == "missing":
                right = re.search(rf"rank {self.victims[0]} did not|waited for rank 0", words)
            self.expect(right or unmet, f"{self.host_of(host[0])} names nobody")
            errors = words.count("lockstep: error:")
            most = len({self.host_of(rank) for rank in here})
            self.expect(1 <= errors <= most or self.phase == "starting", f"{errors} errors on {self.host_of(host[0])}")

    def kept(self):
        """What was measured can be read, and says if something is missing."""
        for path in self.out.glob("r.json*"):
            full = self.kind in ("disk", "readonly") and path.stat().st_size == 0
            shown = subprocess.run([self.program, "show", "-"], stdin=open(path), capture_output=True)
            self.expect(full or shown.returncode == 0, f"show refuses {path.name}")
        runs, incomplete = self.record()
        trained = self.phase != "starting" and self.kind not in ("disk", "readonly")
        self.expect(runs or not trained, "nothing is kept")
        finished = bool(runs) and all(not run.get("unfinished") for run in runs)
        self.expect(not runs or incomplete or finished, "an incomplete result that does not say so")
