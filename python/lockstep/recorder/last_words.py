"""What outlives a process that ends without a word, for `lockstep record` to read."""

import array
import ctypes
import os


class LastWords:
    """`PATH.steps`: the ends of the steps as 8-byte numbers; it was changed when the process was last seen to live.
    `PATH.exit`: the exit code as its last byte. Nothing in here fails."""

    def __init__(self, path):
        self._steps = self._exit = None
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            self._steps = os.open(path + ".steps", flags, 0o600)
            self._exit = os.open(path + ".exit", flags | os.O_APPEND, 0o600)
            libc = ctypes.CDLL(None)
            libc.fdopen.restype = ctypes.c_void_p
            # Only the C library sees every exit code: glibc hands it to fputc() when Python is gone.
            stream = ctypes.c_void_p(libc.fdopen(self._exit, b"a"))
            libc.on_exit(ctypes.cast(libc.fputc, ctypes.c_void_p), stream)
        except (OSError, AttributeError):
            pass

    def step(self, *ends):
        self._write(array.array("d", ends).tobytes())

    def rewrite(self, ends):
        """Replaces all steps."""
        if self._steps is not None:
            os.lseek(self._steps, 0, os.SEEK_SET)
            os.ftruncate(self._steps, 0)
            self.step(*ends)

    def live(self):
        """Says that the process does. Thread-safe."""
        try:
            if self._steps is not None:
                os.utime(self._steps)
        except OSError:
            pass

    def leave(self, code):
        """To be called before os._exit()."""
        self.live()
        if self._exit is not None:
            os.write(self._exit, bytes([code & 255]))

    def forget(self):
        """In a forked process, whose end is not this one's."""
        if self._exit is not None:
            nothing = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
            os.dup2(nothing, self._exit, inheritable=False)
            os.close(nothing)
        self._steps = self._exit = None

    def _write(self, data):
        try:
            if self._steps is not None:
                os.write(self._steps, data)
        except OSError:
            # A full disk.
            self._steps = None


def steps_of(path):
    """Steps of the rank whose last words are at this path."""
    try:
        return os.stat(path + ".steps").st_size // 8
    except OSError:
        return 0
