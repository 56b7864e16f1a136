#!/usr/bin/env python3
"""One rank of Python PyTorch on one GPU, timed by events: what lockstep is compared with there.

  gpu_train_step.py --model resnet50 --batch 32 --precision bf16 --variant ddp
  gpu_train_step.py --variant compiled

ddp: DistributedDataParallel over NCCL with one rank, eager. single: the same without it. compiled: single under
torch.compile(mode="max-autotune"), which records CUDA graphs. All: channels-last, autocast where the precision is
narrow, cuDNN's search for the fastest algorithms, fused SGD, gradients set to none. Prints one line of JSON; the
end of every step is an event, read after the run.
"""

import argparse
import json
import os


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
    parser.add_argument("--port", type=int, default=29411)
    return parser.parse_args()


def main():
    options = parse_options()
    import torch
    import torchvision

    torch.backends.cudnn.benchmark = True
    tf32 = options.precision != "fp32"
    torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cuda.matmul.allow_tf32 = tf32
    narrow = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(options.precision)
    device = torch.device("cuda", 0)

    generator = torch.Generator().manual_seed(1)
    shape = (options.batch, 3, options.image_size, options.image_size)
    batches = [(torch.randn(shape, generator=generator).to(device, memory_format=torch.channels_last),
                torch.randint(1000, (options.batch,), generator=generator).to(device)) for _ in range(4)]
    torch.manual_seed(1)
    network = getattr(torchvision.models, options.model)(weights=None).train()
    network = network.to(device, memory_format=torch.channels_last)
    if options.variant == "ddp":
        import torch.distributed as dist

        os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(options.port))
        dist.init_process_group("nccl", device_id=device)
        network = torch.nn.parallel.DistributedDataParallel(
            network, device_ids=[0], broadcast_buffers=False, gradient_as_bucket_view=True)
    elif options.variant == "compiled":
        network = torch.compile(network, mode="max-autotune")
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4,
                                fused=options.optimizer == "fused", foreach=options.optimizer == "foreach")
    scaler = torch.amp.GradScaler("cuda", enabled=options.precision == "fp16")

    ends = [torch.cuda.Event(enable_timing=True) for _ in range(options.warmup + options.steps)]
    loss = None
    for step, end in enumerate(ends):
        images, labels = batches[step % len(batches)]
        with torch.autocast("cuda", narrow, enabled=narrow is not None):
            loss = torch.nn.functional.cross_entropy(network(images), labels)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        end.record()
    torch.cuda.synchronize()
    step_s = [a.elapsed_time(b) / 1e3 for a, b in zip(ends[options.warmup - 1:], ends[options.warmup:])]
    print(json.dumps({"torch": torch.__version__, "cuda": torch.version.cuda, "gpu": torch.cuda.get_device_name(0),
                      "variant": options.variant, "batch": options.batch, "precision": options.precision,
                      "loss": loss.item(), "step_s": step_s}))
    if options.variant == "ddp":
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
