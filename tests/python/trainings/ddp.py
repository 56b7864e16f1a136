"""DistributedDataParallel over Gloo with a DataLoader, as torchvision's references train. Under torchrun or alone.

python ddp.py [--steps 80] [--compile] [--accumulate N] [--step-s SECONDS] [--end ...]
"""

import argparse
import contextlib
import os
import signal
import sys
import time

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=80)
parser.add_argument("--step-s", type=float, default=0, help="sleep in each step")
parser.add_argument("--accumulate", type=int, default=1)
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--end", help="after the last step: exit, raise, kill, hang or interrupt")
parser.add_argument("--compile", action="store_true")
parser.add_argument("--profile", action="store_true", help="run a profiler of its own")
parser.add_argument("--move", action="store_true", help="go to another folder and empty the environment")
options = parser.parse_args()

if "RANK" in os.environ:
    dist.init_process_group("gloo")
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 196, 10))
if dist.is_initialized():
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
loss_of = torch.compile(model) if options.compile else model
data = torch.utils.data.TensorDataset(torch.randn(256, 3, 16, 16), torch.randint(10, (256,)))
loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=options.workers)
if options.move:
    os.chdir("/")
    os.environ.clear()


def train():
    done = batches = 0
    while True:
        for images, labels in loader:
            batches += 1
            last = batches % options.accumulate == 0
            sync = model.no_sync() if dist.is_initialized() and not last else contextlib.nullcontext()
            with sync:
                torch.nn.functional.cross_entropy(loss_of(images), labels).backward()
            if last:
                optimizer.step()
                optimizer.zero_grad()
                time.sleep(options.step_s)
                done += 1
                if done == options.steps:
                    return


if options.profile:
    with torch.profiler.profile() as profiler:
        train()
    print("the script's own profile has", len(profiler.events()) > 100)
else:
    train()
print(f"trained {options.steps} steps", flush=True)
if options.end == "exit":
    sys.exit(3)
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
