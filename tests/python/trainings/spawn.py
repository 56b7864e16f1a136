"""Two ranks that the script itself starts, by spawn or by fork: python spawn.py [fork]"""

import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def train(rank, port):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(80):
        optimizer.zero_grad()
        model(torch.randn(8, 64)).square().mean().backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    how = sys.argv[1] if len(sys.argv) > 1 else "spawn"
    mp.start_processes(train, (20000 + os.getpid() % 20000,), nprocs=2, start_method=how)
    print("trained 80 steps")
