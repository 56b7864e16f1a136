"""record(): the recorder of `lockstep record` around a loop of a notebook, or of a trainer that a script calls."""

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from lockstep import recorder
from lockstep.calls import run
from lockstep.recorder.files import why_not_mine_alone

LONGEST_WAIT_S = 60


class record:
    """Records the steps within, and writes the result of `lockstep import`, whose tables it prints.

        with lockstep.record("run.json"):
            trainer.fit(model)

    result: the file for report(); None: tables only.
    steps: first step of the traced window and one past the last, counted from 0; None: 20 steps after warm-up.
    keep: a folder for the recording. Ranks on several hosts need one that all see; it is empty at first.
    max_trace: bytes of a rank's trace, of which more shorten the window.

    Every rank enters it. Rank 0 waits for the others at the end, a minute at most. The training goes on whatever happens
    to the recording: a warning says so. Within `lockstep record`, which records already, it does nothing.
    """

    def __init__(self, result=None, *, steps=None, keep=None, max_trace=1 << 30):
        self._result = None if result is None else Path(result).absolute()
        self._steps = steps
        self._keep = None if keep is None else Path(keep).absolute()
        self._max_trace = max_trace

    def __enter__(self):
        self._is_on = not recorder.is_active()
        if not self._is_on:
            return self
        try:
            self._folder = self._keep or self._default_folder()
            self._folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            reason = why_not_mine_alone(self._folder)
            if reason:
                raise PermissionError(reason)
            self._shared = self._folder / ".recorder"
            self._shared.mkdir(mode=0o700, exist_ok=True)
            recorder.begin({
                "folder": str(self._folder), "shared": str(self._shared), "traces": str(self._folder),
                "steps": self._steps, "max_trace": self._max_trace, "command": sys.argv,
            })  # fmt: skip
        except Exception as error:
            recorder.warn(f"nothing is recorded: {error}")
            self._is_on = False
        return self

    def _default_folder(self) -> Path:
        """One for all ranks, and a private one for a single process."""
        if "WORLD_SIZE" not in os.environ and not recorder.is_one_of_several():
            return Path(tempfile.mkdtemp(prefix="lockstep-recording-"))
        # Ranks of torchrun, mpirun and spawn have their parent in common.
        folder = Path(tempfile.gettempdir()) / f"lockstep-recording-{os.getuid()}-{os.getppid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.is_symlink():
            raise PermissionError(f"'{folder}' is a link")
        return folder

    def __exit__(self, kind, error, trace):
        if not self._is_on:
            return
        try:
            rank, world = recorder.end("finished" if kind is None else recorder.cause_of(kind))
            if rank is None:
                recorder.warn("nothing was recorded: no optimizer made a step; without one, call lockstep.step()")
                shutil.rmtree(self._shared, ignore_errors=True)
                if not self._keep and not any(self._folder.iterdir()):
                    self._folder.rmdir()
            if rank == 0:
                self._import(world)
        except Exception as failure:
            recorder.warn(f"the recording in '{self._folder}' was not imported: {failure}")

    def _import(self, world: int) -> None:
        others = [self._folder / f"rank-{rank}.json" for rank in range(world)]
        deadline = time.monotonic() + LONGEST_WAIT_S
        while time.monotonic() < deadline and not all(map(_has_ended, others)):
            time.sleep(0.1)
        output = [] if self._result is None else ["-o", str(self._result), "--force"]
        try:
            print(run(["import", str(self._folder), *output]))
        finally:
            # Ranks may record once more.
            shutil.rmtree(self._shared, ignore_errors=True)
        if not self._keep:
            shutil.rmtree(self._folder, ignore_errors=True)


def _has_ended(path: Path) -> bool:
    return path.exists() and '"ended": "running"' not in path.read_text()
