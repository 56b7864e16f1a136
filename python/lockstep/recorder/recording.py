"""The recording of one rank."""

import array
import json
import os
import threading
import weakref
from time import perf_counter

from . import warn
from .facts import Loaders, facts_of, is_on_several_hosts
from .files import remove, replace
from .lifeline import Lifeline
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
"""Steps from rank 0's announcement to the window."""
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
        self._writable = False
        self._lock = threading.RLock()
        self._course = self._take_course()
        self.lifeline = Lifeline(self.write, self._terminated)
        # The optimizers of a step, if there are several.
        self._closing = None
        self._optimizers = weakref.WeakSet()
        self._first_cycle = 0
        self._since_closing = 0
        self._is_explicit = False

    def optimizer_step(self, optimizer):
        self._processor.after_optimizer()
        if not self._is_explicit and (id(optimizer) == self._closing or self._closes(optimizer)):
            self._step()

    def explicit_step(self):
        if not self._is_explicit:
            self._is_explicit = True
            self._forget_steps(len(self._ends))
        self._step()

    def _closes(self, optimizer):
        """Whether a step ends with this optimizer, which is not the one that ended the last. A step ends with the
        optimizer whose own first step came last of all: the others step before it, once or several times."""
        if optimizer not in self._optimizers:
            self._optimizers.add(optimizer)
            self._closing = id(optimizer)
            self._first_cycle = len(self._ends)
            return True
        # An earlier one steps again, so both are parts of one step: what was counted before belongs to the first.
        self._forget_steps(self._first_cycle)
        self._first_cycle = 0
        self._since_closing += 1
        if self._since_closing < 1000:
            return False
        self._closing = id(optimizer)
        return True

    def _forget_steps(self, count):
        if self._window is None and not self._tracer.is_open():
            del self._ends[:count]

    def _step(self):
        self._since_closing = 0
        self._ends.append(perf_counter())
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
        self.lifeline.hold()
        self.write()
        first, last = self._options["steps"] or (yield from self._steps_after_warm_up())
        if len(self._ends) < first - 2:
            yield first - 2
        if len(self._ends) > first - 2:
            first, last = len(self._ends) + 2, max(last, len(self._ends) + 3)
            self._warn("the window begins at step {}, which is later than wanted".format(first))
        loaders = Loaders(len(self._ends))
        # The trace of one step tells its size, and the profiler warms up.
        self._tracer.open()
        yield first - 1
        step_bytes = self._tracer.measure(self._path(".size.json"))
        # A step between two uses of the profiler: what began under the first may end under the second no more.
        yield first
        samples = loaders.samples_per_step(len(self._ends))
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
        self._facts["samples_per_step"] = samples or loaders.samples_per_step(len(self._ends))
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
        self._course = self._keep_times()
        self._next = next(self._course)

    def _steps_after_warm_up(self):
        """The window. Of ranks that share a host, rank 0 decides, and announces it in a file some steps ahead."""
        yield LEAST_WARM_UP
        if is_on_several_hosts() or self._ranks_here() < self._facts["world"]:
            return FIRST_ON_HOSTS, FIRST_ON_HOSTS + WINDOW_STEPS
        path = os.path.join(self._options["shared"], "window")
        if self._facts["rank"] != 0:
            while not os.path.exists(path):
                yield len(self._ends) + 1
            with open(path) as file:
                return tuple(map(int, file.read().split()))
        count = LEAST_WARM_UP
        while count < LONGEST_WARM_UP and not is_steady([b - a for a, b in zip(self._ends, self._ends[1:])]):
            count = count * 5 // 4
            yield count
        first = len(self._ends) + AHEAD
        replace(path, ["{} {}".format(first, first + WINDOW_STEPS)])
        return first, first + WINDOW_STEPS

    def _ranks_here(self):
        """Those of this host that have ended a step."""
        return sum(name.startswith("rank-") for name in os.listdir(self._options["shared"]))

    def _claim(self):
        """Takes this rank's place in the recording. A rank that was started anew takes that of a dead one."""
        path = os.path.join(self._options["shared"], "rank-{}".format(self._facts["rank"]))
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
            remove(os.path.join(self._options["shared"], "window"))
        os.write(place, str(self._pid).encode())
        os.close(place)
        self._writable = True

    def _keep_trace(self):
        self._processor.stop()
        self._facts["processor"] = self._processor.means(len(self._ends) - self._window[0])
        path = self._path(".trace.json")
        self._tracer.close(path)
        self._trace = os.path.basename(path)

    def _give_way(self):
        """The script starts a profiler of its own within the window."""
        self._window = None
        self._only_times()
        self._warn("no trace: the script started a profiler of its own")

    def finish(self, ended):
        """Ends the recording. Returns its rank and the number of ranks."""
        if os.getpid() != self._pid or self._ended is not None:
            return None, 0
        try:
            if self._tracer.is_open() and self._window and len(self._ends) > self._window[0]:
                self._window[1] = min(self._window[1], len(self._ends))
                self._keep_trace()
            elif self._tracer.is_open():
                self._tracer.measure(self._path(".size.json"))
            if self._trace is not None:
                plain = os.path.join(self._options["folder"], self._trace)
                self._trace = os.path.basename(self._tracer.pack(plain))
                self.write()
                remove(plain)
            elif not self._warnings:
                self._warnings.append("ended after {} steps, before its window".format(len(self._ends)))
        except Exception as error:
            self._failed(error)
        self._processor.stop()
        self._ended = ended
        self.write()
        self.lifeline.let_go()
        return self._facts["rank"], self._facts.get("world", 0)

    def _terminated(self):
        # The main thread and that of the lifeline may both be here.
        with self._lock:
            if self._ended is None:
                self._ended = "terminated"
                self.write()

    def write(self):
        """Writes the file as it is by now. Thread-safe."""
        if not self._writable or os.getpid() != self._pid:
            return
        with self._lock:
            record = dict(
                self._facts,
                window=self._window if self._trace else None,
                trace=self._trace,
                ended=self._ended or "running",
                warnings=self._warnings,
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

    def _failed(self, error):
        name = "" if isinstance(error, (OSError, RuntimeError)) else type(error).__name__ + ": "
        self._warn("the recording is incomplete: {}{}".format(name, error))

    def _warn(self, text):
        if not self._warnings:
            warn("rank {}: {}".format(self._facts["rank"], text))
        self._warnings.append(text)
