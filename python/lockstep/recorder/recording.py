"""The recording of one rank."""

import array
import json
import os
import threading
from time import perf_counter, time

from . import warn
from .facts import Precision, facts_of, is_on_several_hosts, place
from .files import remove, replace
from .last_words import LastWords, steps_of
from .lifeline import Lifeline
from .loaders import Loaders
from .optimizers import Cycle
from .processor import ProcessorTimes
from .steady import is_steady
from .tracer import Tracer

WINDOW_STEPS = 20
"""Steps of a window that the user did not choose."""
FIRST_ON_HOSTS = 50
"""First step of that window where ranks are on several hosts: they cannot agree on another without a message."""
LEAST_WARM_UP = 24
LONGEST_WARM_UP = 1000
AHEAD = 6
"""Steps of the fastest rank from the announcement of the window to its begin."""
MOST_STEPS = 200000
"""Step times that are kept."""
NEVER = 1 << 62


class Recorder:
    """Made by the rank's first step, in the thread that trains; all calls are from that thread, write() excepted."""

    def __init__(self, options):
        self._options = options
        self._pid = os.getpid()
        self._ends = array.array("d")
        self._next = 0
        self._facts = {"rank": "?"}
        self._warnings = []
        self._window = None
        self._trace = None
        self._tracer = Tracer(self._give_way)
        self._processor = ProcessorTimes()
        self._ended = None
        self._ended_at = self._interrupted_at = None
        self._skipped = 0
        self._writable = False
        self._lock = threading.RLock()
        self._course = self._take_course()
        self.last_words = None
        self.lifeline = Lifeline(self._beat, self._interrupted, self._terminated)
        self._loaders = Loaders()
        self._precision = None
        self._cycle = Cycle(self._merge)
        self._is_explicit = False

    def optimizer_step(self, optimizer, skipped=False):
        self._processor.after_optimizer()
        self._skipped += skipped
        if self._precision is None:
            self._precision = Precision(optimizer)
        if not self._is_explicit and self._cycle.ends_step(optimizer):
            self._step()

    def explicit_step(self):
        if not self._is_explicit:
            self._is_explicit = True
            self._precision = self._precision or Precision(None)
            self._merge(len(self._ends), None)
        self._step()

    def _merge(self, count, kept):
        """Makes one step of the last, which ends with the one at `kept` among them; None: none. Returns False where the
        steps that were traced would have other numbers."""
        first = len(self._ends) - count
        if self._tracer.is_open() or (self._window and first < self._window[1]):
            return False
        self._ends[first:] = self._ends[first + kept : first + kept + 1] if kept is not None else self._ends[:0]
        self._loaders.restart()
        if self.last_words is not None:
            self.last_words.rewrite(self._ends)
        return True

    def _step(self):
        self._ends.append(perf_counter())
        if self.last_words is not None:
            self.last_words.step(self._ends[-1])
        self._loaders.end_step()
        if self._window is not None:
            self._tracer.mark(len(self._ends) - 1)
        if len(self._ends) >= self._next:
            try:
                self._next = next(self._course, NEVER)
            except Exception as error:
                self._failed(error)
                self._only_times()

    def _take_course(self):
        """What happens between two steps. Yields the number of steps at which it goes on."""
        self._facts = facts_of(self._options["command"])
        self._claim()
        self._loaders.attach()
        self.lifeline.hold()
        self.write()
        first, last = self._options["steps"] or (yield from self._steps_after_warm_up())
        if len(self._ends) < first - 2:
            yield first - 2
        if len(self._ends) > first - 2:
            first, last = len(self._ends) + 2, max(last, len(self._ends) + 3)
            self._warn("the window begins at step {}, which is later than wanted".format(first))
        self._loaders.attach()
        # The trace of one step tells its size, and the profiler warms up.
        self._tracer.open()
        yield first - 1
        step_bytes = self._tracer.measure(self._plain_trace())
        # A step between two uses of the profiler: what began under the first may end under the second no more.
        yield first
        most = int(self._options["max_trace"] / max(step_bytes, 1))
        if most < last - first:
            last = first + max(most, 1)
            size = "the trace of one has {:.1f} MB of --max-trace".format(step_bytes / 1e6)
            self._warn("the window ends after {} steps: {}".format(last - first, size))
        self._tracer.open()
        self._window = [first, last]
        self._processor.begin()
        # The annotation of an optimizer's step ends after its hooks: one step more has the end of the last.
        yield last + 1
        self._keep_trace()
        self.write()
        yield from self._keep_times()

    def _keep_times(self):
        yield MOST_STEPS
        self._warn("the times of the first {} steps are kept".format(MOST_STEPS))
        self.write()
        self._step = lambda: None

    def _only_times(self):
        self._processor.stop()
        if self._precision is not None:
            self._precision.stop()
        self._course = self._keep_times()
        self._next = next(self._course)

    def _steps_after_warm_up(self):
        """The window. Of ranks that share a host, the first whose warm-up has ended decides for all, by a file that says so
        some steps ahead of the fastest."""
        yield LEAST_WARM_UP
        path = self._shared("window")
        count = LEAST_WARM_UP
        while True:
            if len(self._ends) >= count:
                count = count * 5 // 4
                first = self._first_of_window()
                if first is not None:
                    self._announce(path, first)
            if os.path.exists(path):
                with open(path) as file:
                    window = tuple(map(int, file.read().split()))
                # Another rank may be about to write it.
                if window:
                    return window
            yield len(self._ends) + 1

    def _first_of_window(self):
        """None: warm-up goes on."""
        if is_on_several_hosts() or self._ranks_here() < self._facts["world"]:
            return FIRST_ON_HOSTS
        durations = [b - a for a, b in zip(self._ends, self._ends[1:])]
        if len(self._ends) < LONGEST_WARM_UP and not is_steady(durations):
            return None
        most = max(steps_of(self._shared("rank-{}".format(rank))) for rank in range(self._facts["world"]))
        return max(most, len(self._ends)) + AHEAD

    def _announce(self, path, first):
        """Unless another rank was faster."""
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return
        os.write(file, "{} {}".format(first, first + WINDOW_STEPS).encode())
        os.close(file)

    def _ranks_here(self):
        """Those of this host: by the launcher's word, else those that have ended a step."""
        local = place()[2]
        files = os.listdir(self._options["shared"])
        return max(local, sum(name.startswith("rank-") and "." not in name for name in files))

    def _shared(self, name):
        return os.path.join(self._options["shared"], name)

    def _claim(self):
        """Takes this rank's place in the recording. A rank that was started anew takes that of a dead one."""
        path = self._shared("rank-{}".format(self._facts["rank"]))
        try:
            place = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            with open(path) as file:
                holder = int(file.read() or 0)
            trace = self._path(".trace.json")
            if os.path.exists("/proc/{}".format(holder)) or os.path.exists(trace) or os.path.exists(trace + ".gz"):
                raise RuntimeError("rank {} is that of process {} already".format(self._facts["rank"], holder)) from None
            place = os.open(path, os.O_WRONLY | os.O_TRUNC)
            # The launcher starts all ranks anew, long before the next announcement.
            remove(self._shared("window"))
        os.write(place, str(self._pid).encode())
        os.close(place)
        self._writable = True
        self.last_words = LastWords(path)
        self.last_words.rewrite(self._ends)

    def _keep_trace(self):
        self._processor.stop()
        self._precision.stop()
        self._facts["processor"] = self._processor.means(len(self._ends) - self._window[0])
        self._tracer.close(self._plain_trace())
        self._trace = os.path.basename(self._plain_trace())

    def _give_way(self):
        """The script starts a profiler of its own within the window."""
        self._window = None
        self._only_times()
        self._warn("no trace: the script started a profiler of its own")

    def finish(self, ended, ended_at=None):
        """Ends the recording, at a Unix time. Returns its rank and the number of ranks."""
        if os.getpid() != self._pid or self._ended is not None:
            return None, 0
        if self._interrupted_at is not None and ended != "finished":
            # Whatever an exception says that follows, as of a connection to a rank that ended first.
            ended, ended_at = "interrupted", self._interrupted_at
        self._ended_at = ended_at or time()
        try:
            if self._tracer.is_open() and self._window and len(self._ends) > self._window[0]:
                self._window[1] = min(self._window[1], len(self._ends))
                self._keep_trace()
            elif self._tracer.is_open():
                self._tracer.measure(self._plain_trace())
            if self._trace is not None:
                packed = self._path(".trace.json.gz")
                self._tracer.pack(self._plain_trace(), packed)
                self._trace = os.path.basename(packed)
                self.write()
                remove(self._plain_trace())
            elif not self._warnings:
                self._warnings.append(self._too_short())
        except Exception as error:
            self._failed(error)
        self._processor.stop()
        if self._precision is not None:
            self._precision.stop()
        self._loaders.detach()
        self._ended = ended
        self.write()
        self.lifeline.let_go()
        return self._facts["rank"], self._facts.get("world", 0)

    def _too_short(self):
        count = len(self._ends)
        first = (self._window or self._options["steps"] or [LEAST_WARM_UP + AHEAD])[0]
        text = "ended after {} steps, before its window could begin at step {}: train longer".format(count, first)
        return text + (", or give an earlier window: --steps 3:{}".format(count) if count > 4 else "")

    def _interrupted(self):
        self._interrupted_at = self._interrupted_at or time()
        self.write()

    def _terminated(self):
        # The main thread and that of the lifeline may both be here.
        with self._lock:
            if self._ended is None:
                self._ended = "terminated"
                self._ended_at = time()
                self.write()

    def _beat(self):
        if self.last_words is not None:
            self.last_words.live()

    def leave(self, status):
        """The process is about to leave by os._exit()."""
        if self.last_words is not None and os.getpid() == self._pid:
            self.last_words.leave(status)
            self.write()

    def forget(self):
        """In a forked process: it may record steps of its own, and its signals and its end are not its parent's."""
        self.lifeline.release()
        if self.last_words is not None:
            self.last_words.forget()

    def write(self):
        """Writes the file as it is by now. Thread-safe."""
        if not self._writable or os.getpid() != self._pid:
            return
        with self._lock:
            record = dict(
                self._facts,
                precision=self._precision and self._precision.name(),
                skipped_updates=self._skipped,
                window=self._window if self._trace else None,
                trace=self._trace,
                ended=self._ended or "running",
                ended_at=self._ended_at,
                interrupted_at=self._interrupted_at,
                warnings=self._warnings,
                **self._loaders.facts()
            )
            try:
                replace(self._path(".json"), self._parts(record))
            except OSError as error:
                self._writable = False
                self._failed(error)

    def _parts(self, record):
        """The text in small parts: large ones would change how malloc serves the training."""
        yield json.dumps(record)[:-1] + ', "step_end_s": ['
        count = len(self._ends)
        for first in range(0, count, 1000):
            times = self._ends[first : min(first + 1000, count)]
            yield (", " if first else "") + ", ".join("{:.6f}".format(time) for time in times)
        yield "]}"

    def _path(self, end):
        return os.path.join(self._options["folder"], "rank-{}{}".format(self._facts["rank"], end))

    def _plain_trace(self):
        """Where nobody else can put a link, which PyTorch would follow."""
        return os.path.join(self._options["traces"], "rank-{}.trace.json".format(self._facts["rank"]))

    def _failed(self, error):
        name = "" if isinstance(error, (OSError, RuntimeError)) else type(error).__name__ + ": "
        self._warn("the recording is incomplete: {}{}".format(name, error))

    def _warn(self, text):
        if not self._warnings:
            warn("rank {}: {}".format(self._facts["rank"], text))
        self._warnings.append(text)
