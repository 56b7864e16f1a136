"""Begins to record, and then runs the sitecustomize that this one hides. Part of `lockstep record`."""

import os
import sys


def _customize():
    folder = os.path.dirname(os.path.abspath(__file__))
    try:
        import lockstep_recorder

        # For `import lockstep` in the script.
        sys.modules["lockstep.recorder"] = lockstep_recorder
        lockstep_recorder.begin(os.path.join(folder, "options.json"))
    except Exception as error:
        sys.stderr.write("lockstep record: warning: this process is not recorded: {}\n".format(error))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != folder]
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec("sitecustomize")
    if spec is not None:
        module = sys.modules["sitecustomize"] = module_from_spec(spec)
        spec.loader.exec_module(module)


if __name__ == "sitecustomize":
    _customize()
