"""Records a PyTorch training from inside, without a change of its script.

`lockstep record -- COMMAND` puts these files into a folder that every Python of the command looks into first
(sitecustomize.py). A process records from its first optimizer step on: the time at which each step ends, and a trace of
torch.profiler over a window of steps. It writes rank-R.json and rank-R.trace.json.gz (docs/your-training.md), which
`lockstep import` reads.

Whatever fails in here leaves the training as it was: one warning, and the training goes on. Any Python may import these
files, so they have the syntax of Python 3.6 and need nothing but the standard library.
"""

import os
import sys
from time import time

_options = None
_recorder = None
_cause = "finished"
_failed_at = None
_updates = 0
_latest = None


def begin(options):
    """Lets this process record once it has PyTorch.

    options: a dictionary with folder (of the recording), shared (a folder of this host's ranks), traces (a folder for
    traces that are not compressed; both are this user's alone), steps (first and one past the last of the window, or
    None), max_trace (bytes) and command (a list); or a file with that as JSON.
    """
    global _options
    _options = options
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forget)
    if "torch" in sys.modules:
        _attach(sys.modules["torch"])
    else:
        sys.meta_path.insert(0, _TorchFinder())


def end(ended=None):
    """Ends the recording of this process, if there is one. Returns its rank and the number of ranks, or (None, 0)."""
    global _options, _recorder
    recorder, _recorder, _options = _recorder, None, None
    return recorder.finish(ended or _cause, _failed_at) if recorder is not None else (None, 0)


def step():
    """Ends a step, where the optimizer is not one of torch.optim's kind. Does nothing unless something records."""
    if _options is not None:
        try:
            _started().explicit_step()
        except Exception as error:
            _give_up(error)


def is_one_of_several():
    """Whether this process is a rank among others, by its launcher's variables or its process group."""
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_world_size() > 1
    from .facts import place

    return place()[1] > 1


def cause_of(kind):
    """Of an end by an exception."""
    return "interrupted" if issubclass(kind, KeyboardInterrupt) else "exception: " + kind.__name__


def is_active():
    """Whether this process records, or will."""
    return _options is not None


def warn(text):
    try:
        sys.stderr.write("lockstep record: warning: {}\n".format(text))
    except Exception:
        pass


class _TorchFinder:
    """Attaches the recorder to torch as soon as it is imported. A script may ask before whether there is one."""

    def __init__(self):
        self._is_asking = False

    def find_spec(self, name, path=None, target=None):
        if name != "torch" or self._is_asking:
            return None
        from importlib.util import find_spec

        self._is_asking = True
        try:
            spec = find_spec(name)
        finally:
            self._is_asking = False
        if spec is not None and hasattr(spec.loader, "exec_module"):
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                _attach(module)

            spec.loader.exec_module = exec_module
        return spec


_is_attached = False


def _attach(torch):
    """Hooks into the steps of all optimizers."""
    global _options, _is_attached
    try:
        # Later the folder may be gone.
        from . import recording  # noqa: F401

        if isinstance(_options, str):
            import json

            with open(_options, encoding="utf-8") as file:
                _options = json.load(file)
        if _is_attached:
            return
        try:
            from torch.optim.optimizer import register_optimizer_step_post_hook
        except ImportError:
            raise RuntimeError("torch {} is older than 2.0".format(torch.__version__)) from None
        register_optimizer_step_post_hook(_after_optimizer)
        _note_skipped_updates()
        _note_exceptions()
        _note_exits()
        _is_attached = True
    except Exception as error:
        _give_up(error)


def _give_up(error):
    global _options
    _options = None
    warn("this process is not recorded: {}".format(error))


def _after_optimizer(optimizer, args, kwargs):
    global _updates
    _updates += 1
    if _options is not None:
        try:
            _started().optimizer_step(optimizer, skipped=args is None)
        except Exception as error:
            _give_up(error)


# A compiled optimizer calls it between its graphs.
_after_optimizer._torchdynamo_disable = True


def _note_skipped_updates():
    """A batch whose update a gradient scaler skips, because of an overflow, is a step all the same."""
    modules = [sys.modules.get(name) for name in ("torch.amp.grad_scaler", "torch.cuda.amp.grad_scaler")]
    kind = next((module.GradScaler for module in modules if module is not None), None)
    update = getattr(kind, "_maybe_opt_step", None)
    if update is None:
        return

    def _maybe_opt_step(scaler, optimizer, *args, **kwargs):
        before = _updates
        result = update(scaler, optimizer, *args, **kwargs)
        if _updates == before and isinstance(optimizer, sys.modules["torch"].optim.Optimizer):
            _after_optimizer(optimizer, None, None)
        return result

    kind._maybe_opt_step = _maybe_opt_step


def _started():
    global _recorder, _latest
    if _recorder is None:
        from .recording import Recorder

        _recorder = _latest = Recorder(_options)
        import atexit

        atexit.register(end)
        if "multiprocessing.util" in sys.modules:
            # A process that multiprocessing forked ends without atexit.
            sys.modules["multiprocessing.util"].Finalize(None, end, exitpriority=0)
    return _recorder


def _note_exceptions():
    """Keeps the cause of this process's end."""
    earlier = sys.excepthook

    def hook(kind, error, trace):
        global _cause, _failed_at
        _cause, _failed_at = cause_of(kind), time()
        earlier(kind, error, trace)

    sys.excepthook = hook


def _note_exits():
    leave = os._exit

    def _exit(status):
        try:
            if _latest is not None:
                _latest.leave(status)
        finally:
            leave(status)

    os._exit = _exit


def _forget():
    """A forked process is another one."""
    global _recorder, _latest
    recorder, _recorder, _latest = _latest, None, None
    if recorder is not None:
        recorder.forget()
