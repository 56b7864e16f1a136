"""The profiler of a recording."""

import gzip
import os
import shutil
import sys
import warnings

from .files import create, remove


def _start(torch, activities):
    # Kineto reads it at its first start, and would say on standard error what no user can change.
    variable = "KINETO_LOG_LEVEL"
    is_loud = variable not in os.environ
    if is_loud:
        os.environ[variable] = "5"
    try:
        with warnings.catch_warnings():
            # Torch 2.9 and newer warn that each window forgets the one before.
            warnings.simplefilter("ignore")
            profiler = torch.profiler.profile(activities=activities, record_shapes=True)
            profiler.start()
    finally:
        if is_loud:
            del os.environ[variable]
    return profiler


class Tracer:
    """One use of torch.profiler after another. `give_way`: called when the script starts a profiler of its own, after
    this one was closed: a process has one."""

    def __init__(self, give_way):
        self._give_way = give_way
        self._profiler = None

    def is_open(self):
        return self._profiler is not None

    def open(self):
        torch = sys.modules["torch"]
        if getattr(torch.autograd.profiler, "_is_profiler_enabled", False):
            raise RuntimeError("the script runs a profiler of its own")
        if getattr(torch._C, "_current_graph_task_id", lambda: -1)() != -1:
            raise RuntimeError("its optimizer steps within backward, where no profiler can start")
        kinds = torch.profiler.ProfilerActivity
        activities = [kinds.CPU] + ([kinds.CUDA] if torch.cuda.is_initialized() else [])
        profiler = _start(torch, activities)
        self._profiler = profiler
        self._profile = torch.autograd.profiler.profile
        self._prepare = prepare = self._profile._prepare_trace

        def prepare_trace(profile):
            if self._profiler is not None:
                self._stop()
                self._give_way()
            return prepare(profile)

        self._profile._prepare_trace = prepare_trace

    def mark(self, step):
        """Marks the end of a step in the trace, if one is being taken."""
        if self._profiler is not None:
            with sys.modules["torch"].autograd.profiler.record_function("lockstep.step#{}".format(step)):
                pass

    def _stop(self):
        profiler, self._profiler = self._profiler, None
        self._profile._prepare_trace = self._prepare
        profiler.stop()
        return profiler

    def close(self, path):
        """Writes the trace. Returns its size."""
        profiler = self._stop()
        try:
            profiler.export_chrome_trace(path)
            # Kineto does not say when the disk is full: it leaves a part of the file, or none.
            if not os.path.exists(path):
                raise OSError("'{}' could not be written: the disk may be full".format(path))
            with open(path, "rb") as file:
                size = file.seek(0, 2)
                file.seek(max(0, size - 8))
                if not file.read().rstrip().endswith(b"}"):
                    raise OSError("'{}' is cut off: the disk may be full".format(path))
        except BaseException:
            remove(path)
            # Kineto's own, before it renames it.
            remove(path + ".tmp")
            raise
        return size

    def measure(self, path):
        """Returns the size of the trace, of which nothing is kept."""
        size = self.close(path)
        remove(path)
        return size

    def pack(self, path, packed_path):
        """Compresses a trace into a new file; the old one stays."""
        try:
            with open(path, "rb") as plain, open(create(packed_path), "wb") as file:
                with gzip.GzipFile(mode="wb", compresslevel=3, fileobj=file) as packed:
                    shutil.copyfileobj(plain, packed, 1 << 20)
        except BaseException:
            remove(packed_path)
            raise
