"""What a recording says of its rank."""

import gc
import os
import re
import socket
import sys
import weakref
from datetime import datetime, timezone

LAUNCHERS = (
    ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE"),
)
"""Variables with the rank, the number of ranks, and that of one host, of torchrun, Open MPI, MPICH and srun."""


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
        "command": command,
        "started_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "clock": "perf_counter",
        "samples_per_step": None,
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
    return "ddp" if _instances("torch.nn.parallel.distributed", "DistributedDataParallel") else None


class Loaders:
    """The DataLoaders that are in use, and how far they are."""

    def __init__(self, steps):
        """steps: those that have ended."""
        self._steps = steps
        loaders = _instances("torch.utils.data.dataloader", "_BaseDataLoaderIter")
        self._before = [(weakref.ref(one), one._num_yielded) for one in loaders]

    def samples_per_step(self, steps):
        """None unless exactly one DataLoader was in use all the time."""
        used = [(one(), before) for one, before in self._before if one() is not None and one()._num_yielded > before]
        if len(used) != 1:
            return None
        loader, before = used[0]
        batches = round((loader._num_yielded - before) / (steps - self._steps))
        sampler = getattr(loader, "_index_sampler", None)
        batch = getattr(sampler, "batch_size", None)
        if isinstance(batch, int) and getattr(sampler, "split_batches", False):
            # Accelerate's sampler has the batch of all ranks.
            batch //= sampler.num_processes
        return batch * batches if isinstance(batch, int) and batches > 0 else None
