"""Processor time of the thread that trains."""

import sys
from time import thread_time


class ProcessorTimes:
    """Counts it by phase between begin() and stop(), on that thread, around functions of PyTorch's own."""

    def __init__(self):
        self._hook = None
        self._backward_s = self._optimizer_s = 0.0
        self._optimizer_begin_s = None

    def begin(self):
        torch = sys.modules["torch"]
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        self._autograd = torch.autograd
        self._backward = backward = torch.autograd.backward

        def timed(*args, **kwargs):
            begin_s = thread_time()
            try:
                return backward(*args, **kwargs)
            finally:
                end_s = thread_time()
                self._backward_s += end_s - begin_s
                if self._optimizer_begin_s is not None:
                    # An optimizer that calls forward and backward begins its own work behind them.
                    self._optimizer_begin_s = end_s

        timed._torchdynamo_disable = True
        self._hook = register_optimizer_step_pre_hook(self._before_optimizer)
        self._timed = torch.autograd.backward = timed
        self._begin_s = thread_time()

    def _before_optimizer(self, optimizer, args, kwargs):
        self._optimizer_begin_s = thread_time()

    # A compiled optimizer calls it between its graphs.
    _before_optimizer._torchdynamo_disable = True

    def after_optimizer(self):
        """To be called in the hook behind an optimizer's step, where PyTorch allows no other hook to come or go."""
        if self._optimizer_begin_s is not None:
            self._optimizer_s += thread_time() - self._optimizer_begin_s
            self._optimizer_begin_s = None

    def stop(self):
        if self._hook is None:
            return
        self._all_s = thread_time() - self._begin_s
        self._hook.remove()
        self._hook = None
        if self._autograd.backward is self._timed:
            self._autograd.backward = self._backward

    def means(self, steps):
        """Those over so many steps, as lockstep's breakdown has them; None without backward, or if they do not fit."""
        before_s = self._all_s - self._backward_s - self._optimizer_s
        times = {"before_s": before_s, "backward_s": self._backward_s, "optimizer_s": self._optimizer_s}
        if self._backward_s == 0 or min(times.values()) < 0:
            return None
        return {phase: time / steps for phase, time in times.items()}
