#!/usr/bin/env python3
"""lockstep's sharded --shard parameters against torch.distributed.fsdp.fully_shard (FSDP2) by block, over Gloo, in turn
on the same cores: the parameters that both end in, the step, and the most memory of a rank.

  bench/vs_fsdp.py --model gpt --ranks 2
  bench/vs_fsdp.py --model resnet18 --ranks 3

First `lockstep verify --export` writes initial parameters and batches, and FSDP2 trains on the same: printed is the
2-norm of the difference of all parameters after --agree-steps, relative to the norm of the parameters. Then both are
timed --repeats times, in processes of their own, the order rotating; memory is the highest resident set of a rank in
its measured steps, less what its process had before it had a network. gpt is the decoder of examples/networks.py in the
size of --gpt; resnet18 is torchvision's, images of 64 x 64. Exit code 1 where they disagree by more than --tolerance.

Needs a Python with torch 2.11, torchvision and safetensors, made by `make setup-python` (.venv-dev).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SGD = {"lr": 0.05, "momentum": 0.9, "weight_decay": 1e-4}


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="gpt", choices=["gpt", "resnet18"])
    parser.add_argument("--gpt", default="2000,512,8,6,128", help="words, width, heads, blocks, length")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--batch", type=int, default=4, help="samples per rank")
    parser.add_argument("--agree-steps", type=int, default=10)
    parser.add_argument("--tolerance", type=float, default=1e-6)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--unit-mb", default="4", help="lockstep's")
    parser.add_argument("--lockstep-flag", action="append", default=[], help="one more for lockstep: --kernels=aten")
    parser.add_argument("--lockstep", default=str(ROOT / "build" / "lockstep"))
    parser.add_argument("--python", default=str(ROOT / ".venv-dev" / "bin" / "python"))
    parser.add_argument("--rank-of", help=argparse.SUPPRESS)
    return parser.parse_args()


def numbers_of(options):
    return [int(number) for number in options.gpt.split(",")]


def resident_kib(name):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    return 0


def build(options):
    """The network, its blocks, and the loss of (inputs, targets)."""
    import torch
    import torchvision

    torch.manual_seed(1)
    if options.model == "resnet18":
        model = torchvision.models.resnet18(weights=None).to(memory_format=torch.channels_last)
        blocks = [block for name in ("layer1", "layer2", "layer3", "layer4") for block in getattr(model, name)]
        return model, blocks, torch.nn.functional.cross_entropy
    sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "python")]
    import networks

    words, width, heads, depth, length = numbers_of(options)
    model = networks.Gpt(words, width, heads, depth, length)
    return model, list(model.blocks.layers), networks.following_token_loss


def export_gpt(options, path):
    import torch

    model, _, loss = build(options)
    import lockstep

    words, *_, length = numbers_of(options)
    tokens = torch.randint(words, (options.batch, length))
    lockstep.export(model, loss, tokens, torch.roll(tokens, -1, 1), path, name="gpt", unit="token",
                    units_per_sample=length, input_range=(0, words), target_range=(0, words))


def train_rank(options):
    """One rank of FSDP2. On --agree-steps batches of the folder, then on random ones, timed."""
    import torch
    from safetensors.torch import load_file, save_file
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    rank, folder = int(os.environ["RANK"]), Path(options.rank_of)
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (options.ranks,))
    torch.ones(1).sum()
    before = resident_kib("VmRSS")
    model, blocks, loss_of = build(options)
    compares = (folder / "initial.safetensors").exists()
    if compares:
        model.load_state_dict(load_file(folder / "initial.safetensors"), strict=False)
        batches = load_file(folder / f"batches.{rank}.safetensors")
        names = sorted({name.rpartition(".")[0] for name in batches})
        given = [[batches[f"{name}.{step}"] for name in sorted(names, key=lambda n: n in ("labels", "target0"))]
                 for step in range(options.agree_steps)]
    elif options.model == "resnet18":
        given = [(torch.randn(options.batch, 3, 64, 64), torch.randint(1000, (options.batch,)))]
    else:
        words, *_, length = numbers_of(options)
        given = [(torch.randint(words, (options.batch, length)), torch.randint(words, (options.batch, length)))]
    if options.model == "resnet18":
        given = [(images.contiguous(memory_format=torch.channels_last), labels) for images, labels in given]
    for block in blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), **SGD)
    times = []
    for step in range(len(given) if compares else options.warmup + options.steps):
        began = time.perf_counter()
        inputs, targets = given[step % len(given)]
        loss_of(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()
        times.append(time.perf_counter() - began)
        if step + 1 == options.warmup:
            Path("/proc/self/clear_refs").write_text("5")
    most = resident_kib("VmHWM") - before
    if compares:
        full = {name: value.full_tensor().detach().contiguous() for name, value in model.named_parameters()}
        if rank == 0:
            save_file(full, folder / "fsdp.safetensors")
    every = [None] * options.ranks
    torch.distributed.all_gather_object(every, (times[options.warmup:], most))
    if rank == 0:
        steps = [max(step) for step in zip(*(times for times, _ in every))]
        print(json.dumps({"step_s": steps, "memory_bytes": 1024 * max(most for _, most in every)}))
    torch.distributed.destroy_process_group()


def run_fsdp(options, folder):
    port = str(20000 + os.getpid() % 20000)
    ranks = []
    cores = sorted(os.sched_getaffinity(0))
    for rank in range(options.ranks):
        environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(options.ranks), MASTER_ADDR="127.0.0.1",
                           MASTER_PORT=port, OMP_NUM_THREADS="1")
        pin = cores[rank % len(cores)] if options.ranks <= len(cores) else None
        ranks.append(subprocess.Popen(
            [options.python, __file__, "--rank-of", str(folder), *sys.argv[1:]], env=environment, text=True,
            stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
            preexec_fn=None if pin is None else lambda pin=pin: os.sched_setaffinity(0, {pin})))
    output, _ = ranks[0].communicate()
    if any([process.wait() for process in ranks]):
        sys.exit("a Python rank failed")
    return json.loads(output.strip().splitlines()[-1]) if output.strip() else None


def lockstep_flags(options, model):
    flags = ["--model", model, "--strategy", "zero3", "--unit-mb", options.unit_mb, "--ranks", str(options.ranks),
             "--batch", str(options.batch), "--backend", "gloo", "--threads", "1", "--device", "cpu"]
    return flags + (["--image-size", "64"] if options.model == "resnet18" else []) + options.lockstep_flag


def run_lockstep(options, model, folder):
    path = folder / "result.json"
    path.unlink(missing_ok=True)
    subprocess.run([options.lockstep, "bench", "--quiet", "--no-controls", "--json", str(path), "--steps",
                    str(options.steps), "--warmup", str(options.warmup), *lockstep_flags(options, model)],
                   check=True, stdout=subprocess.DEVNULL)
    (run,) = json.loads(path.read_text())["lockstep"]["runs"]
    return {"step_s": [max(step) for step in run["samples"]], "memory_bytes": run["memory"]["peak"]["max_bytes"]}


def main():
    options = parse_options()
    if options.rank_of:
        return train_rank(options)
    if Path(sys.executable) != Path(options.python):
        os.execv(options.python, [options.python, *sys.argv])
    import torch
    from safetensors.torch import load_file

    with tempfile.TemporaryDirectory() as name:
        folder, model = Path(name), "resnet18"
        if options.model == "gpt":
            model = str(folder / "gpt.pt2")
            export_gpt(options, model)
        agree = folder / "agree"
        kernels = ["--kernels", "aten"] if options.model == "resnet18" else []
        subprocess.run([options.lockstep, "verify", "--export", str(agree), "--steps", str(options.agree_steps),
                        *lockstep_flags(options, model), *kernels], check=True, stdout=subprocess.DEVNULL)
        run_fsdp(options, agree)
        ours, theirs = load_file(agree / "final.safetensors"), load_file(agree / "fsdp.safetensors")
        apart = sum(((ours[key] - value) ** 2).sum().item() for key, value in theirs.items()) ** 0.5
        apart /= sum((value**2).sum().item() for value in theirs.values()) ** 0.5
        print(f"{options.model}, {options.ranks} ranks: parameters after {options.agree_steps} steps differ by "
              f"{apart:.2g} of their norm", flush=True)
        sides = {"lockstep": lambda: run_lockstep(options, model, folder), "FSDP2": lambda: run_fsdp(options, folder)}
        taken = {side: [] for side in sides}
        for repetition in range(options.repeats):
            for side in list(sides) if repetition % 2 == 0 else reversed(list(sides)):
                taken[side].append(sides[side]())
        steps = {side: [statistics.median(run["step_s"]) for run in runs] for side, runs in taken.items()}
        memory = {side: [run["memory_bytes"] for run in runs] for side, runs in taken.items()}
        for title, values, scale, unit in (("step", steps, 1e3, "ms"), ("memory", memory, 2**-20, "MiB")):
            ratios = [theirs / mine for theirs, mine in zip(values["FSDP2"], values["lockstep"])]
            sides_text = "; ".join(
                f"{side} {statistics.median(of) * scale:.1f} {unit} ({min(of) * scale:.1f} to {max(of) * scale:.1f})"
                for side, of in values.items())
            print(f"  {title}: {sides_text}; FSDP2 over lockstep {statistics.median(ratios):.2f} "
                  f"({min(ratios):.2f} to {max(ratios):.2f})", flush=True)
    return 0 if apart <= options.tolerance else 1


if __name__ == "__main__":
    sys.exit(main())
