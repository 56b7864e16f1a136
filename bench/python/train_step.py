#!/usr/bin/env python3
"""Trains a torchvision network with Python PyTorch on the CPU as fast as it goes, and prints each step's seconds.

The other side of lockstep's comparison with Python (bench/vs_python.py runs both in turn). It does what
docs/measuring.md calls the same work: random images and labels made before the first step and used in turn,
cross entropy, SGD with momentum 0.9 and weight decay 1e-4, gradients dropped every step, channels-last,
local batch norm.

    train_step.py --model resnet50 --batch 32 --threads 2 --cpus 0,1

With RANK and WORLD_SIZE (and MASTER_ADDR, MASTER_PORT) in the environment it is one rank of
DistributedDataParallel over Gloo; --cpus are then this rank's own. The last line that rank 0 prints is a JSON
object: `step_s` are the seconds per step after warm-up, from end to end, the largest of all ranks.
"""

import argparse
import json
import os
import time

BATCHES = 4


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet50", help="any network of torchvision.models")
    parser.add_argument("--batch", type=int, default=32, help="images per rank")
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--steps", type=int, default=20, help="measured steps")
    parser.add_argument("--warmup", type=int, default=5, help="steps before them")
    parser.add_argument("--threads", type=int, default=0, help="of this rank [the number of its CPUs]")
    parser.add_argument("--cpus", default="", help="CPUs to pin this rank to: 0,1 [as inherited]")
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--memory-format", default="channels_last", choices=["channels_last", "contiguous"])
    parser.add_argument("--optimizer", default="fused", choices=["fused", "foreach", "loop"])
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--bucket-mb", type=float, default=25, help="DDP's bucket_cap_mb")
    parser.add_argument("--keep-pages", action="store_true",
                        help="keep freed memory, as lockstep does; plain Python PyTorch does not")
    parser.add_argument("--compile", action="store_true", help="under torch.compile")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def keep_freed_pages():
    """What lockstep asks of glibc (src/lockstep/base/allocator.cpp): M_MMAP_MAX, M_TRIM_THRESHOLD, M_TOP_PAD,
    M_ARENA_MAX."""
    import ctypes

    libc = ctypes.CDLL("libc.so.6")
    for parameter, value in ((-4, 0), (-1, 2**31 - 1), (-2, 64 << 20), (-8, 1)):
        if libc.mallopt(parameter, value) != 1:
            raise RuntimeError(f"mallopt({parameter}, {value}) refused")


def make_batches(torch, options, rank):
    generator = torch.Generator().manual_seed(options.seed + 1000 * rank)
    memory_format = getattr(torch, {"contiguous": "contiguous_format"}.get(options.memory_format, "channels_last"))
    shape = (options.batch, 3, options.image_size, options.image_size)
    return [
        (
            torch.randn(shape, generator=generator).contiguous(memory_format=memory_format),
            torch.randint(1000, (options.batch,), generator=generator),
        )
        for _ in range(BATCHES)
    ]


def make_network(torch, options, world_size):
    import torchvision

    torch.manual_seed(options.seed)
    # As lockstep's networks of these names: without auxiliary classifiers, which have names of their own there.
    plain = {"aux_logits": False, "init_weights": False} if options.model in ("googlenet", "inception_v3") else {}
    network = getattr(torchvision.models, options.model)(weights=None, **plain).train()
    if options.memory_format == "channels_last":
        network = network.to(memory_format=torch.channels_last)
    if world_size > 1:
        network = torch.nn.parallel.DistributedDataParallel(
            network, broadcast_buffers=False, gradient_as_bucket_view=True, bucket_cap_mb=options.bucket_mb)
    return torch.compile(network) if options.compile else network


def run_steps(torch, options, network, optimizer, batches):
    """Seconds of every step, warm-up included, from the end of the one before; and the first and last loss."""
    bf16 = options.precision == "bf16"
    losses, step_s = [], []
    last = time.monotonic()
    for step in range(options.warmup + options.steps):
        images, labels = batches[step % len(batches)]
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            loss = torch.nn.functional.cross_entropy(network(images), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        now = time.monotonic()
        step_s.append(now - last)
        last = now
    return step_s, losses[0].item(), losses[-1].item()


def main():
    options = parse_options()
    # Before torch is imported: its thread pools take over the mask.
    if options.cpus:
        os.sched_setaffinity(0, {int(cpu) for cpu in options.cpus.split(",")})
    if options.keep_pages:
        keep_freed_pages()
    import torch
    import torch.distributed as dist

    threads = options.threads or len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    rank, world_size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if world_size > 1:
        dist.init_process_group("gloo")

    batches = make_batches(torch, options, rank)
    network = make_network(torch, options, world_size)
    kind = {"fused": {"fused": True}, "foreach": {"foreach": True}, "loop": {"foreach": False}}[options.optimizer]
    optimizer = torch.optim.SGD(network.parameters(), lr=options.lr, momentum=0.9, weight_decay=1e-4, **kind)

    if world_size > 1:
        dist.barrier()
    step_s, first_loss, last_loss = run_steps(torch, options, network, optimizer, batches)
    if world_size > 1:
        longest = torch.tensor(step_s, dtype=torch.float64)
        dist.all_reduce(longest, op=dist.ReduceOp.MAX)
        step_s = longest.tolist()
        dist.destroy_process_group()
    if rank == 0:
        print(json.dumps({
            "torch": torch.__version__,
            "model": options.model,
            "batch": options.batch,
            "ranks": world_size,
            "threads": threads,
            "cpus": sorted(os.sched_getaffinity(0)),
            "precision": options.precision,
            "memory_format": options.memory_format,
            "optimizer": options.optimizer,
            "keep_pages": options.keep_pages,
            "compile": options.compile,
            "preloaded": os.environ.get("LD_PRELOAD", ""),
            "loss": {"first": first_loss, "last": last_loss},
            "warmup_s": step_s[:options.warmup],
            "step_s": step_s[options.warmup:],
        }))


if __name__ == "__main__":
    main()
