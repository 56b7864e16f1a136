#!/usr/bin/env python3
"""Whether lockstep's ddp ends in the parameters that Python's DistributedDataParallel ends in.

  bench/ddp_agrees_with_python.py --model resnet18 --ranks 2 --steps 10

`lockstep verify --export` trains and writes the initial parameters, every rank's batches and the final parameters.
Python processes start from the same parameters and train on the same batches with torchvision's network,
DistributedDataParallel over Gloo and torch.optim.SGD. Printed: the largest difference of any parameter, relative to the
largest move of its tensor (0: the same bits), and beside it the same between two Python runs on one and on two threads,
which differ in nothing but the order of summation. Exit code 1 when lockstep's is over --tolerance.

Needs a Python with torch, torchvision and safetensors, made by `make setup-python` (.venv-dev).
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What `lockstep verify` trains with.
SGD = {"lr": 0.05, "momentum": 0.9, "weight_decay": 1e-4}


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet18", help="any network that lockstep and torchvision have")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch", type=int, default=4, help="images per rank")
    parser.add_argument("--image-size", type=int, default=64)
    parser.add_argument("--strategy", default="ddp")
    parser.add_argument("--kernels", default="aten", help="lockstep's; Python's are aten")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--lockstep", default=str(ROOT / "build" / "lockstep"))
    parser.add_argument("--python", default=str(ROOT / ".venv-dev" / "bin" / "python"))
    parser.add_argument("--rank-of", help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--output", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


def train_rank(options):
    """One Python rank; RANK and WORLD_SIZE say which."""
    import torch
    import torchvision
    from safetensors.torch import load_file

    rank = int(os.environ["RANK"])
    folder = Path(options.rank_of)
    torch.set_num_threads(options.threads)
    torch.distributed.init_process_group("gloo")
    model = torchvision.models.get_model(options.model, weights=None)
    missing, unexpected = model.load_state_dict(load_file(folder / "initial.safetensors"), strict=False)
    # Running statistics begin the same everywhere and are not in the file.
    if unexpected or any("running" not in name and "num_batches" not in name for name in missing):
        sys.exit(f"the parameters' names differ: missing {missing}, unexpected {unexpected}")
    model = model.to(memory_format=torch.channels_last)
    batches = load_file(folder / f"batches.{rank}.safetensors")
    replica = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), **SGD)
    for step in range(options.steps):
        images = batches[f"images.{step}"].contiguous(memory_format=torch.channels_last)
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(replica(images), batches[f"labels.{step}"]).backward()
        optimizer.step()
    if rank == 0:
        torch.save({name: value.detach().contiguous() for name, value in model.named_parameters()}, options.output)
    torch.distributed.destroy_process_group()


def train_python(options, folder, threads, output):
    port = str(20000 + os.getpid() % 20000)
    ranks = []
    for rank in range(options.ranks):
        environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(options.ranks), MASTER_ADDR="127.0.0.1",
                           MASTER_PORT=port)
        command = [options.python, __file__, "--rank-of", str(folder), "--threads", str(threads),
                   "--model", options.model, "--steps", str(options.steps), "--output", str(output)]
        ranks.append(subprocess.Popen(command, env=environment))
    if any([process.wait() for process in ranks]):
        sys.exit("a Python rank failed")


def largest_difference(torch, a, b, initial):
    """Over all tensors: the largest difference, as a share of the tensor's largest move."""
    worst = 0.0
    for name, start in initial.items():
        move = (a[name] - start).abs().max().item()
        if move > 0:
            worst = max(worst, (a[name] - b[name]).abs().max().item() / move)
    return worst


def main():
    options = parse_options()
    if options.rank_of:
        return train_rank(options)
    if Path(sys.executable) != Path(options.python):
        os.execv(options.python, [options.python, *sys.argv])
    import torch
    from safetensors.torch import load_file

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([options.lockstep, "verify", "--export", name, "--model", options.model,
                        "--strategy", options.strategy, "--ranks", str(options.ranks),
                        "--steps", str(options.steps), "--batch", str(options.batch),
                        "--image-size", str(options.image_size), "--kernels", options.kernels, "--threads", "1"],
                       check=True)
        train_python(options, folder, 1, folder / "python.pt")
        train_python(options, folder, 2, folder / "again.pt")
        initial = load_file(folder / "initial.safetensors")
        ours = load_file(folder / "final.safetensors")
        python = torch.load(folder / "python.pt")
        again = torch.load(folder / "again.pt")
    apart = largest_difference(torch, python, ours, initial)
    itself = largest_difference(torch, python, again, initial)
    print(f"{options.model}, {options.ranks} ranks, {options.steps} steps of {options.strategy}: "
          f"lockstep differs from Python by {apart:.2g} of a tensor's largest move; "
          f"Python on 2 threads from Python on 1 by {itself:.2g}")
    return 0 if apart <= options.tolerance else 1


if __name__ == "__main__":
    sys.exit(main())
