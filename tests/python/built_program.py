"""The program that was built, for tests that run what they export."""

import os
import subprocess


def run_program(*arguments) -> subprocess.CompletedProcess:
    # The stubs are for Python; the program has its own.
    environment = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
    return subprocess.run([os.environ["LOCKSTEP_PROGRAM"], *arguments], env=environment, capture_output=True, text=True)
