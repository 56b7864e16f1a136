"""python -m lockstep export NAME -o FILE.pt2
python -m lockstep convert WEIGHTS.pt WEIGHTS.safetensors

Of an installed wheel this is the command `lockstep` as well, and all other arguments go to the program.
"""

import argparse
import sys

from lockstep import program
from lockstep.refusals import ExportError
from lockstep.version import VERSION


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lockstep", description="Files for `lockstep --model` and `--init`.")
    parser.add_argument("--version", action="version", version=VERSION)
    commands = parser.add_subparsers(dest="command", required=True)
    export = commands.add_parser("export", help="write a network of a library, with random values, to a file")
    export.add_argument("name", help="torchvision:vit_b_16, timm:resnetv2_50, transformers:gpt2")
    export.add_argument("-o", "--output", required=True, metavar="FILE.pt2")
    export.add_argument("--batch", default="8", help="batch sizes, a graph for each: 8,16 (default: %(default)s)")
    export.add_argument("--precision", default="fp32", help="fp32, bf16, or both: fp32,bf16 (default: %(default)s)")
    export.add_argument("--device", default="cpu", help="cpu, cuda, or both: cpu,cuda (default: %(default)s)")
    export.add_argument("--image-size", type=int, metavar="PIXELS", help="default: what the network was made for")
    export.add_argument("--classes", type=int, default=1000, help="of images (default: %(default)s)")
    export.add_argument("--sequence", type=int, default=128, help="tokens of a sample (default: %(default)s)")
    convert = commands.add_parser("convert", help="write the values of a file of torch.save as .safetensors, for --init")
    convert.add_argument("source", metavar="WEIGHTS.pt")
    convert.add_argument("target", metavar="WEIGHTS.safetensors")
    return parser


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    if program.is_installed() and arguments[:1] not in (["export"], ["convert"]):
        return program.run(arguments)
    options = _parser().parse_args(arguments)
    return _convert(options) if options.command == "convert" else _export(options)


def _convert(options: argparse.Namespace) -> int:
    from lockstep.safetensors import ConvertError, convert

    try:
        path = convert(options.source, options.target)
    except (ConvertError, OSError) as error:
        print(f"lockstep convert: {error}", file=sys.stderr)
        return 1
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB; begin with it: lockstep train --init {path}")
    return 0


def _export(options: argparse.Namespace) -> int:
    try:
        batches = [int(size) for size in options.batch.split(",")]
        if min(batches) < 1:
            raise ValueError
    except ValueError:
        print(f"lockstep export: --batch takes whole numbers above 0, not '{options.batch}'", file=sys.stderr)
        return 2
    # PyTorch takes seconds to import; --help does not need it.
    from lockstep import catalog
    from lockstep.exporting import export

    try:
        named = catalog.build(options.name, batches[0], options.image_size, options.classes, options.sequence)
        path = export(
            named.model, named.loss, named.inputs, named.targets, options.output, batch=batches,
            precision=options.precision.split(","), device=options.device.split(","),
            name=options.name.partition(":")[2], progress=True, **named.options,
        )  # fmt: skip
    except (ExportError, OSError) as error:
        print(f"lockstep export: {error}", file=sys.stderr)
        return 1
    print(f"{path}: {path.stat().st_size / 1e6:.0f} MB; train it with: lockstep bench --model {path} --batch {batches[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
