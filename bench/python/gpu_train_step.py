#!/usr/bin/env python3
"""One rank of Python PyTorch on one GPU, timed by events: what lockstep is compared with there.

  gpu_train_step.py --model resnet50 --batch 32 --precision bf16 --variant ddp
  gpu_train_step.py --variant compiled

ddp: DistributedDataParallel over NCCL with one rank, eager. single: the same without it. compiled: single under
torch.compile(mode="max-autotune"), which records CUDA graphs. All: channels-last, autocast where the precision is
narrow, cuDNN's search for the fastest algorithms, fused SGD, gradients set to none. Prints a line of JSON; the end of
every step is an event, read after the run.

--wait prints what it runs on once it is warm, and then measures once for every line that it reads.
"""

import argparse
import json
import os
import sys
import time

from step_bytes import step_bytes

# Before the measured ones whenever measuring begins: the GPU has rested, and its queue is empty.
SETTLING_STEPS = 5


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet50", help="any network of torchvision.models")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--precision", default="bf16", choices=["fp32", "tf32", "bf16", "fp16"])
    parser.add_argument("--variant", default="ddp", choices=["ddp", "single", "compiled"])
    parser.add_argument("--optimizer", default="fused", choices=["fused", "foreach"])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--warmup", type=int, default=30)
    parser.add_argument("--wait", action="store_true", help="measure when told to, again and again")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"], help="cpu: to try this script out")
    return parser.parse_args()


class HostEvent:
    """Stands for an event where there is no GPU."""

    def record(self):
        self.at_s = time.perf_counter()

    def elapsed_time(self, later):
        return (later.at_s - self.at_s) * 1e3


def copy_rate(torch, device):
    """Bytes per second that a copy within the GPU's memory moves, read and written; the best of some."""
    source = torch.empty(1 << 28 if device.type == "cpu" else 1 << 31, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    best_ms = float("inf")
    for _ in range(5 if device.type == "cpu" else 20):
        begin, end = new_event(torch, device), new_event(torch, device)
        begin.record()
        target.copy_(source)
        end.record()
        synchronize(torch, device)
        best_ms = min(best_ms, begin.elapsed_time(end))
    return 2 * source.numel() / (best_ms / 1e3)


def new_event(torch, device):
    return HostEvent() if device.type == "cpu" else torch.cuda.Event(enable_timing=True)


def synchronize(torch, device):
    if device.type == "cuda":
        torch.cuda.synchronize()


class Training:
    """The network, its optimizer and its batches."""

    def __init__(self, options, torch):
        import torchvision

        self.torch = torch
        self.device = torch.device("cuda", 0) if options.device == "cuda" else torch.device("cpu")
        self.narrow = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(options.precision)
        torch.backends.cudnn.benchmark = True
        tf32 = options.precision != "fp32"
        torch.backends.cudnn.allow_tf32 = tf32
        torch.backends.cuda.matmul.allow_tf32 = tf32

        generator = torch.Generator().manual_seed(1)
        shape = (options.batch, 3, options.image_size, options.image_size)
        self.batches = [
            (torch.randn(shape, generator=generator).to(self.device, memory_format=torch.channels_last),
             torch.randint(1000, (options.batch,), generator=generator).to(self.device)) for _ in range(4)]
        torch.manual_seed(1)
        network = getattr(torchvision.models, options.model)(weights=None).train()
        network = network.to(self.device, memory_format=torch.channels_last)
        if options.variant == "ddp":
            network = torch.nn.parallel.DistributedDataParallel(
                network, device_ids=None if options.device == "cpu" else [0], broadcast_buffers=False,
                gradient_as_bucket_view=True)
        elif options.variant == "compiled":
            network = torch.compile(network, mode="max-autotune")
        self.network = network
        self.optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4,
                                         fused=options.optimizer == "fused", foreach=options.optimizer == "foreach")
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=options.precision == "fp16")
        self.steps = 0

    def step(self):
        images, labels = self.batches[self.steps % len(self.batches)]
        self.steps += 1
        self.optimizer.zero_grad(set_to_none=True)
        with self.torch.autocast(self.device.type, self.narrow, enabled=self.narrow is not None):
            loss = self.torch.nn.functional.cross_entropy(self.network(images), labels)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def measure(self, steps):
        """Seconds of so many steps, from the end of one to the end of the next."""
        ends = [new_event(self.torch, self.device) for _ in range(SETTLING_STEPS + steps + 1)]
        for end in ends:
            self.step()
            end.record()
        synchronize(self.torch, self.device)
        return [a.elapsed_time(b) / 1e3 for a, b in zip(ends[SETTLING_STEPS:], ends[SETTLING_STEPS + 1:])]


def join_group(options, torch):
    """The process group of one rank, at a port that is free."""
    import torch.distributed as dist

    store = dist.TCPStore("127.0.0.1", 0, 1, is_master=True)
    if options.device == "cuda":
        dist.init_process_group("nccl", store=store, rank=0, world_size=1, device_id=torch.device("cuda", 0))
    else:
        dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    return dist


def main():
    options = parse_options()
    import torch

    on_gpu = options.device == "cuda"
    group = join_group(options, torch) if options.variant == "ddp" else None
    training = Training(options, torch)
    for _ in range(options.warmup):
        training.step()
    synchronize(torch, training.device)
    facts = {"torch": torch.__version__, "cuda": torch.version.cuda, "variant": options.variant,
             "gpu": torch.cuda.get_device_name(0) if on_gpu else "none", "batch": options.batch,
             "precision": options.precision, "copy_bytes_per_s": copy_rate(torch, training.device),
             "bytes_per_image": step_bytes(options.model, options.batch, options.image_size,
                                           options.precision) / options.batch}
    if options.wait:
        print(json.dumps(facts), flush=True)
        for _ in sys.stdin:
            print(json.dumps({"step_s": training.measure(options.steps)}), flush=True)
    else:
        print(json.dumps({**facts, "step_s": training.measure(options.steps)}))
    if group is not None:
        group.destroy_process_group()


if __name__ == "__main__":
    main()
