"""DistributedDataParallel over Gloo with a DataLoader, as torchvision's references train. Under torchrun or alone.

python ddp.py [--steps 80] [--compile] [--accumulate N] [--step-s SECONDS] [--end ...]
python ddp.py --deep [--late SECONDS] [--load SECONDS] [--reduce-each] [--batches 4,2] [--buffers MB] [--evaluate 10]
"""

import argparse
import contextlib
import os
import signal
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=80)
parser.add_argument("--step-s", type=float, default=0, help="sleep in each step")
parser.add_argument("--accumulate", type=int, default=1)
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--end", help="after the last step: exit, leave, raise, kill, hang or interrupt")
parser.add_argument("--compile", action="store_true")
parser.add_argument("--profile", action="store_true", help="run a profiler of its own")
parser.add_argument("--move", action="store_true", help="go to another folder and empty the environment")
parser.add_argument("--deep", action="store_true", help="a network that computes for longer than it communicates")
parser.add_argument("--late", type=float, default=0, help="rank 1 sleeps so long in its forward pass")
parser.add_argument("--load", type=float, default=0, help="seconds that loading a batch takes")
parser.add_argument("--reduce-each", action="store_true", help="accumulate without no_sync()")
parser.add_argument("--batches", default="4", help="samples of each rank's batch, by turns")
parser.add_argument("--buffers", type=float, default=0, help="MB of buffers, which DDP broadcasts in forward")
parser.add_argument("--evaluate", type=int, default=0, help="evaluate after every so many steps")
options = parser.parse_args()

if "RANK" in os.environ:
    dist.init_process_group("gloo")
rank = dist.get_rank() if dist.is_initialized() else 0
batches_of_ranks = [int(batch) for batch in options.batches.split(",")]
batch_size = batches_of_ranks[rank % len(batches_of_ranks)]
torch.manual_seed(0)
torch.set_num_threads(1)


def layers(*channels, stride=1):
    """Convolutions from each number of channels to the next."""
    pairs = zip(channels, channels[1:])
    return [each for a, b in pairs for each in (nn.Conv2d(a, b, 3, stride, 1), nn.ReLU())]


class Images(torch.utils.data.Dataset):
    def __getitem__(self, index):
        time.sleep(options.load / batch_size)
        return images[index], labels[index]

    def __len__(self):
        return len(images)


size = 32 if options.deep else 16
images, labels = torch.randn(256, 3, size, size), torch.randint(10, (256,))
if options.deep:
    # As in common networks, the first layers compute most, and the last ones have most parameters.
    convolutions = [*layers(3, 32, 32, 32, 32), *layers(32, 128, 256, 256, 256, stride=2)]
    model = nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(4 * 256, 10))
else:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 196, 10))
if options.buffers:
    model.register_buffer("history", torch.zeros(int(options.buffers * 250_000)))
if rank == 1 and options.late:
    model.register_forward_pre_hook(lambda *_: time.sleep(options.late))
if dist.is_initialized():
    model = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
loss_of = torch.compile(model) if options.compile else model
loader = torch.utils.data.DataLoader(Images(), batch_size=batch_size, num_workers=options.workers, drop_last=True)
if options.move:
    os.chdir("/")
    os.environ.clear()
ends = []


def train():
    batches = 0
    while True:
        for images, labels in loader:
            batches += 1
            last = batches % options.accumulate == 0
            alone = dist.is_initialized() and not last and not options.reduce_each
            with model.no_sync() if alone else contextlib.nullcontext():
                nn.functional.cross_entropy(loss_of(images), labels).backward()
            if last:
                optimizer.step()
                optimizer.zero_grad()
                time.sleep(options.step_s)
                ends.append(time.perf_counter())
                if len(ends) == options.steps:
                    return
                if options.evaluate and len(ends) % options.evaluate == 0:
                    evaluate()


@torch.no_grad()
def evaluate():
    model.eval()
    for number, (images, _) in enumerate(loader):
        if number == 4:
            break
        model(images)
    model.train()


if options.profile:
    with torch.profiler.profile() as profiler:
        train()
    print("the script's own profile has", len(profiler.events()) > 100)
else:
    train()
print(f"trained {options.steps} steps", flush=True)
if options.deep and rank == 0:
    print(f"{statistics.median(b - a for a, b in zip(ends, ends[1:])):.4f} s a step", flush=True)
if options.end == "exit":
    sys.exit(3)
elif options.end == "leave":
    os._exit(4)
elif options.end == "raise":
    raise ValueError("diverged")
elif options.end == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
elif options.end == "hang":
    # Rank 0 is the one that waits, in C++.
    if os.environ.get("RANK") == "0":
        dist.barrier()
    time.sleep(600)
elif options.end == "interrupt":
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(600)
if dist.is_initialized():
    dist.destroy_process_group()
