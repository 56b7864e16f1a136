#!/usr/bin/env python3
"""How many bytes a training step moves at least, operation by operation.

  step_bytes.py --model resnet50 --batch 256 --precision bf16

Every operation of forward and backward pass reads its operands and writes its results once; views move nothing. Fused
kernels move less, and an operation that looks at something twice, as batch normalisation does, moves more. Counted on
tensors without memory, so it takes neither a GPU nor time. The optimizer's bytes are counted with those of the step.
"""

import argparse
import json

OPTIMIZER_PASSES = 5  # fused SGD with momentum: reads gradient, momentum and value, writes the last two


def step_bytes(model, batch, image_size=224, precision="bf16"):
    """The bytes of one step of a network of torchvision's."""
    import torch
    import torchvision
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    def is_view(operation):
        aliases = [result.alias_info for result in operation._schema.returns]
        return any(alias is not None and not alias.is_write for alias in aliases)

    class Count(TorchDispatchMode):
        """Adds up what operations read and write."""

        def __init__(self):
            super().__init__()
            self.bytes = 0

        def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
            results = operation(*args, **(kwargs or {}))
            if not is_view(operation) and "empty" not in operation.name():
                for tensor in tree_leaves((args, kwargs, results)):
                    if isinstance(tensor, torch.Tensor):
                        self.bytes += tensor.numel() * tensor.element_size()
            return results

    dtype = {"bf16": torch.bfloat16, "bf16_pure": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)
    with torch.device("meta"):
        network = getattr(torchvision.models, model)(weights=None).train().to(dtype)
        images = torch.empty(batch, 3, image_size, image_size)
        labels = torch.empty(batch, dtype=torch.int64)
    values = sum(parameter.numel() for parameter in network.parameters())
    with Count() as count:
        torch.nn.functional.cross_entropy(network(images.to(dtype)), labels).backward()
    return count.bytes + OPTIMIZER_PASSES * 4 * values


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet50", help="any network of torchvision.models")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--precision", default="bf16")
    options = parser.parse_args()
    moved = step_bytes(options.model, options.batch, options.image_size, options.precision)
    print(json.dumps({"bytes": moved, "bytes_per_image": moved / options.batch}))


if __name__ == "__main__":
    main()
