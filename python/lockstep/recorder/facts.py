"""What a recording says of its rank."""

import gc
import os
import re
import socket
import sys
from datetime import datetime, timezone

LAUNCHERS = (
    ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE"),
)
"""Variables with the rank, the number of ranks, and that of one host, of torchrun, Open MPI, MPICH and srun."""

DDP = "torch.nn.parallel.distributed"


def place():
    """Rank, ranks, and ranks of this host, by the variables of the launcher."""
    for names in LAUNCHERS:
        # Slurm writes "2(x3)" and "2,1".
        found = [re.match("[0-9]+", os.environ.get(name, "")) for name in names]
        if found[0] and found[1]:
            rank, world, local = [int(number[0]) if number else None for number in found]
            return rank, world, world if local is None else local
    return 0, 1, 1


def is_on_several_hosts():
    _, world, local = place()
    return local < world


def facts_of(command):
    torch = sys.modules["torch"]
    distributed = torch.distributed
    rank, world, _ = place()
    backend = None
    if distributed.is_available() and distributed.is_initialized():
        rank, world, backend = distributed.get_rank(), distributed.get_world_size(), distributed.get_backend()
    return {
        "lockstep_recording": 1,
        "rank": rank,
        "world": world,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "torch": torch.__version__.partition("+")[0],
        "python": sys.version.split()[0],
        "device": torch.cuda.get_device_name() if torch.cuda.is_initialized() else "cpu",
        "backend": backend,
        "strategy": _strategy(),
        "hook": next(filter(None, map(_hook_of, _instances(DDP, "DistributedDataParallel"))), None),
        "threads": torch.get_num_threads(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "host_cores": os.cpu_count(),
        "command": command,
        "started_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "clock": "perf_counter",
    }


def _instances(module, *names):
    """Objects of classes of a module, if it is imported, and of those that derive from them. Not by gc.get_objects(): a
    list of that size, once freed, lets malloc keep the training's large tensors on its heap, and made one 1.3 times as
    fast."""
    found = [getattr(sys.modules.get(module), name, None) for name in names]
    kinds = [kind for kind in found if kind is not None]
    for kind in kinds:
        kinds += [one for one in kind.__subclasses__() if one not in kinds]
    return [one for one in gc.get_referrers(*kinds) if type(one) in kinds] if kinds else []


def _strategy():
    for module in ("torch.distributed.fsdp", "torch.distributed._composable.fsdp"):
        if _instances(module, "FSDPModule", "FullyShardedDataParallel"):
            return "fsdp"
    return "ddp" if _instances(DDP, "DistributedDataParallel") else None


def _hook_of(module):
    try:
        hooks = [hook for hook, _ in module._comm_hooks]
        return getattr(hooks[0], "__qualname__", str(hooks[0])) if hooks else module._get_ddp_logging_data().get("comm_hook")
    except Exception:
        return None


class Precision:
    """In which type the training computes: that of the parameters, or of autocast, which is seen when it begins."""

    NAMES = {"float32": "fp32", "float64": "fp64", "bfloat16": "bf16", "float16": "fp16"}

    def __init__(self, optimizer):
        """optimizer: one that is at its step; None: there is none."""
        torch = sys.modules["torch"]
        sizes = {}
        for parameter in (one for group in optimizer.param_groups for one in group["params"]) if optimizer else ():
            sizes[parameter.dtype] = sizes.get(parameter.dtype, 0) + parameter.numel()
        self._kind = max(sizes, key=sizes.get) if sizes else None
        self._autocast = None
        self._torch, self._set = torch, getattr(torch, "set_autocast_dtype", None)
        if self._set is not None:
            for device in ("cpu", "cuda"):
                self._see(device, torch.get_autocast_dtype(device))
            torch.set_autocast_dtype = self._see_and_set

    def _see(self, device, kind):
        if self._torch.is_autocast_enabled(device):
            self._autocast = kind

    def _see_and_set(self, device, kind):
        self._see(device, kind)
        return self._set(device, kind)

    def stop(self):
        if self._set is not None and self._torch.set_autocast_dtype == self._see_and_set:
            self._torch.set_autocast_dtype = self._set

    def name(self):
        kind = str(self._autocast or self._kind).rpartition(".")[2]
        name = self.NAMES.get(kind, kind) + (" autocast" if self._autocast else "")
        return None if name == "None" else name
