"""Runs checks one after the other, each with a time-out of its own, and keeps what was promised, seen and held.

A check that fails or hangs is a row like any other: those after it run all the same. The rows are in the JSON file after
every check, so that a machine that is taken away leaves what it has shown.
"""

import dataclasses
import json
import os
import re
import signal
import subprocess
import time

from gpu_promises import NO, NOT_RUN, YES

# Exit code of a test program that did not run.
SKIPPED = 77
# Less is not worth starting with.
LEAST_S = 5
KEPT_OUTPUT = 6000


@dataclasses.dataclass
class Row:
    """One line of the table."""

    promise: str
    seen: str
    holds: str
    seconds: float = 0
    command: str = ""
    output: str = ""


@dataclasses.dataclass
class Done:
    """How a command ended. `code` is None if it was stopped because its time was up."""

    code: int
    output: str
    seconds: float
    limit_s: float
    command: str

    def what(self):
        """How it ended, in words."""
        if self.code is None:
            return f"not done after {self.limit_s:.0f} s"
        if self.code == SKIPPED:
            return "did not run"
        return f"{self.seconds:.0f} s" if self.code == 0 else f"exit code {self.code}"


def run(command, limit_s, environment=None):
    """Runs a command in a process group of its own, all of which ends with it, or when its time is up."""
    words = [str(word) for word in command]
    begin = time.monotonic()
    try:
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                   stdin=subprocess.DEVNULL, start_new_session=True, env=environment)
    except OSError as error:
        return Done(127, str(error), 0, limit_s, " ".join(words))
    code = output = None
    try:
        output, _ = process.communicate(timeout=limit_s)
        code = process.returncode
    except subprocess.TimeoutExpired:
        output = _stop(process)
    return Done(code, output, time.monotonic() - begin, limit_s, " ".join(words))


def _stop(process):
    """Ends the process group: asked first, so that results are kept."""
    for request, patience_s in ((signal.SIGTERM, 5), (signal.SIGKILL, 8)):
        try:
            os.killpg(process.pid, request)
        except ProcessLookupError:
            pass
        try:
            return process.communicate(timeout=patience_s)[0]
        except subprocess.TimeoutExpired:
            continue
    return ""


class Part:
    """The checks of a part, within its time."""

    def __init__(self, name, title, path, limit_s, machine=""):
        self.name, self.title, self.path, self.limit_s, self.machine = name, title, path, limit_s, machine
        self.rows = []
        self.begin = time.monotonic()
        self.write()

    def left_s(self):
        return self.limit_s - (time.monotonic() - self.begin)

    def add(self, promise, seen, holds, done=None):
        """Adds a row, prints it, and says on the way what a command that failed had said."""
        row = Row(promise, seen, holds)
        if done is not None:
            row.seconds, row.command = round(done.seconds, 1), done.command
            if holds == NO:
                row.output = done.output[-KEPT_OUTPUT:]
        self.rows.append(row)
        print(f"{holds:>8}  {promise}: {seen}", flush=True)
        if row.output:
            print(f"          {row.command}\n{row.output}", flush=True)
        self.write()

    def judge(self, promise, function, *arguments, done=None):
        """Adds what a judge says, (seen, holds); one that cannot make sense of what it got has seen nothing hold."""
        try:
            seen, holds = function(*arguments)
        except Exception as error:  # pylint: disable=broad-except
            seen, holds = f"cannot be judged: {type(error).__name__} {error}", NO
        self.add(promise, seen, holds, done)

    def run(self, limit_s, command, environment=None):
        """The command within its own time and what is left of the part's; None where nothing is left."""
        if self.left_s() < LEAST_S:
            return None
        return run(command, min(limit_s, self.left_s()), environment)

    def check(self, promise, limit_s, command, environment=None):
        """A program that says by its exit code whether all is well."""
        done = self.run(limit_s, command, environment)
        if done is None:
            self.no_time(promise)
        else:
            self.add(promise, done.what(), YES if done.code == 0 else NO, done)
        return done

    def check_gtest(self, promise, limit_s, command):
        """The same of a GoogleTest program, none of whose cases may skip itself."""
        done = self.run(limit_s, command)
        if done is None:
            return self.no_time(promise)
        skipped = done.output.count("[  SKIPPED ]") // 2
        passed = done.code == 0 and skipped == 0
        failed = dict.fromkeys(re.findall(r"\[  FAILED  \] (\w\S*\.\S+?)[, ]*(?:\(|$)", done.output, re.MULTILINE))
        seen = done.what() + (f", {skipped} skipped" if skipped else "") + (f": {', '.join(list(failed)[:3])}" if failed else "")
        return self.add(promise, seen, YES if passed else NO, done)

    def no_time(self, promise):
        self.add(promise, f"no time left of {self.limit_s / 60:.0f} min", NO)

    def not_run(self, promise, why):
        self.add(promise, why, NOT_RUN)

    def failed(self):
        return sum(row.holds == NO for row in self.rows)

    def table(self):
        """Promise, seen, holds, in Markdown."""
        cells = [("promise", "seen", "holds")] + [(row.promise, row.seen, row.holds) for row in self.rows]
        widths = [max(len(line[column]) for line in cells) for column in range(3)]
        lines = ["| " + " | ".join(text.ljust(width) for text, width in zip(line, widths)) + " |" for line in cells]
        lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
        return "\n".join(lines)

    def write(self):
        """Replaces the JSON file."""
        text = json.dumps({"part": self.name, "title": self.title, "machine": self.machine, "failed": self.failed(),
                           "seconds": round(time.monotonic() - self.begin, 1),
                           "rows": [dataclasses.asdict(row) for row in self.rows]}, indent=1)
        beside = self.path.with_suffix(".tmp")
        beside.write_text(text + "\n")
        beside.replace(self.path)
