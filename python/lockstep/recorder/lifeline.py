"""Lets a recording survive the end of its process by a signal."""

import ctypes
import os
import select
import signal
import threading

BEAT_S = 1
"""Time between two signs of life, which tell when a rank was killed."""


class Lifeline:
    """A thread that calls `beat` from time to time, `interrupted` when SIGINT comes, and `terminated` when SIGTERM comes,
    which then ends the process as it would have. The script's own handlers are left alone."""

    def __init__(self, beat, interrupted, terminated):
        self._beat = beat
        self._interrupted = interrupted
        self._terminated = terminated
        self._pipe = None
        self._handles = False
        self._ended = False

    def hold(self):
        """Begins."""
        self._pipe = os.pipe()
        for side in self._pipe:
            os.set_blocking(side, False)
        # Without the thread nobody would act on SIGTERM while the main thread is in a collective.
        threading.Thread(target=self._run, name="lockstep-record", daemon=True).start()
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            # Python's handler waits for the main thread, which may be in a collective for ever.
            earlier = signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
            if earlier == -1:
                signal.signal(signal.SIGTERM, self._terminate)
                self._handles = True
            else:
                signal.set_wakeup_fd(earlier)

    def let_go(self):
        """Ends; SIGTERM is as before."""
        self._ended = True
        released = self.release()
        if self._pipe is None:
            return
        if released:
            # The thread sees the end of it, and closes the other side.
            os.close(self._pipe[1])
        else:
            os.write(self._pipe[1], b"\0")

    def release(self):
        """Restores what SIGTERM does, as in a forked process. Returns whether signals write nothing into the pipe now."""
        try:
            if self._handles and signal.getsignal(signal.SIGTERM) == self._terminate:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                signal.set_wakeup_fd(-1)
                self._handles = False
        except ValueError:
            # Not in the main thread.
            pass
        return not self._handles

    def _run(self):
        # select() refuses descriptors from 1024 on.
        poll = select.poll()
        poll.register(self._pipe[0], select.POLLIN)
        while not self._ended:
            if poll.poll(1000 * BEAT_S):
                signals = os.read(self._pipe[0], 512)
                if signal.SIGINT in signals:
                    self._interrupted()
                if signal.SIGTERM in signals and signal.getsignal(signal.SIGTERM) == self._terminate:
                    self._terminate()
            else:
                self._beat()
        os.close(self._pipe[0])

    def _terminate(self, *_):
        self._terminated()
        # signal.signal() is for the main thread only.
        ctypes.CDLL(None).signal(int(signal.SIGTERM), None)
        os.kill(os.getpid(), signal.SIGTERM)
