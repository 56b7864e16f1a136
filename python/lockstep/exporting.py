"""export(): a model, its loss and examples in, a file for `lockstep --model` out."""

import contextlib
import ctypes
import hashlib
import itertools
import json
import logging
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import torch
from torch.export.pt2_archive._package import PT2ArchiveWriter, _package_exported_programs
from torch.utils._pytree import tree_map_only

# Warns of a missing triton as it is imported.
logging.getLogger("torch.utils.flop_counter").setLevel(logging.ERROR)
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from lockstep import samples, tracing
from lockstep.refusals import ExportError, source_line_of
from lockstep.version import FORMAT, TORCH, VERSION


def export(
    model: torch.nn.Module,
    loss: Callable,
    example_inputs,
    example_targets,
    path: str | os.PathLike,
    *,
    batch: int | Sequence[int] | None = None,
    precision: str | Sequence[str] = "fp32",
    device: str | Sequence[str] = "cpu",
    unit: str = "",
    units_per_sample: int = 1,
    input_range: tuple[int, int] | None = None,
    target_range: tuple[int, int] | None = None,
    channels_last: bool | None = None,
    name: str = "",
    progress: bool | None = None,
) -> Path:
    """Traces the training step (forward, loss, backward, buffers) and writes it with the model's values to `path`.

    model: an nn.Module with fp32 parameters on the CPU. It is traced in training mode and not changed.
    loss: loss(output, *targets) gives a tensor with one number, the mean over the batch.
    example_inputs, example_targets: a tensor, a tuple of them, or for inputs a dict of keyword arguments. The first
        dimension of each is the batch.
    batch: batch sizes to trace; by default the examples'. Shapes are fixed, so each one is a graph of its own.
    precision: "fp32", "bf16" (autocast), or both.
    device: "cpu", "cuda", or both: where the network can be trained. A graph for GPUs is traced where there is one.
    unit: the name of a sample in tables: "image", "sequence"; "token" with units_per_sample tokens in a sample. By
        default "image" if the first input has four dimensions, else "sample".
    input_range, target_range: integers are drawn from [low, high); by default from 0 to the examples' highest.
    channels_last: whether images and convolutions are laid out with channels last; by default they are if there are any.
    name: the network's name in the file; by default the class's.
    progress: whether standard error says which graph is being traced; by default on a terminal.

    Raises ExportError where the step cannot be traced; the message says why and where.
    """
    _check_torch()
    _check_kinds(model, loss)
    path = Path(path)
    if path.suffix != ".pt2":
        raise ExportError(f"'{path}' does not end in .pt2, by which the program knows a network's file")
    if not path.parent.is_dir():
        raise ExportError(f"there is no folder '{path.parent}' for '{path.name}'")
    args, kwargs = _as_arguments(example_inputs)
    targets = _as_tuple(example_targets)
    _check_examples(args, kwargs, targets)
    lasts = channels_last if channels_last is not None else _has_images(model, args)
    network = _take_apart(model, loss, lasts)
    inputs = tree_map_only(torch.Tensor, lambda tensor: _laid_out(tensor, lasts), (args, kwargs))
    batch = _batch_of(inputs) if batch is None else batch
    batches = list(batch) if isinstance(batch, (list, tuple)) else [batch]
    precisions = [precision] if isinstance(precision, str) else list(precision)
    devices = [device] if isinstance(device, str) else list(device)
    _check_choices(batches, precisions, devices)
    unit = unit or ("image" if args and args[0].dim() == 4 else "sample")
    _check_samples(unit, units_per_sample, input_range, target_range)
    input_names = [f"input{i}" for i in range(len(args))] + list(kwargs)
    described = {
        "inputs": [samples.describe(*pair, input_range) for pair in zip(input_names, _leaves(inputs), strict=True)],
        "targets": [samples.describe(f"target{i}", target, target_range) for i, target in enumerate(targets)],
    }

    _check_examples_run(network, inputs, targets)

    programs, graphs, changed = {}, [], []
    wanted = list(itertools.product(devices, precisions, batches))
    for number, (place, one, size) in enumerate(wanted, 1):
        if sys.stderr.isatty() if progress is None else progress:
            print(f"graph {number} of {len(wanted)}: batch {size}, {one}, {place}", file=sys.stderr)
        own_inputs, own_targets = _sized(inputs, targets, size)
        step = tracing.trace(network, own_inputs, own_targets, one, place)
        for constant in step.program.constants.items():
            samples.type_name(*constant)
        graph = {"name": f"b{size}_{one}" + ("" if place == "cpu" else f"_{place}"), "batch": size, "precision": one,
                 "device": place, "activation_bytes": step.activation_bytes}  # fmt: skip
        programs[graph["name"]] = step.program
        changed = step.changed
        graphs.append(graph)
    first = _sized(inputs, targets, batches[0])
    values, layout = _values(network, changed)
    metadata = {
        "lockstep": FORMAT,
        "name": name or type(model).__name__,
        "versions": {"lockstep": VERSION, "torch": torch.__version__},
        "unit": unit,
        "units_per_sample": units_per_sample,
        "multiply_adds": _multiply_adds(network, *first) // batches[0],
        "channels_last": lasts,
        **layout,
        **described,
        "graphs": graphs,
    }

    def check(written: Path) -> None:
        for graph in graphs:
            _check_loss(written, graph, network, *_sized(inputs, targets, graph["batch"]))

    _write(path, programs, metadata, values, check)
    return path


def _check_torch() -> None:
    if not torch.__version__.startswith(TORCH + "."):
        raise ExportError(
            f"this is PyTorch {torch.__version__}; files for lockstep are written by {TORCH}, whose reader the program has"
        )


def _check_kinds(model, loss) -> None:
    for argument, value, wanted, right in (
        ("model", model, "a torch.nn.Module", isinstance(model, torch.nn.Module)),
        ("loss", loss, "a function of the output and the targets", callable(loss)),
    ):
        if not right:
            raise ExportError(f"'{argument}' is {wanted}, not a {type(value).__name__}; the order is model, loss, inputs, targets, path")


def _check_examples_run(network: tracing.Network, inputs, targets: tuple) -> None:
    """Runs the examples forward: a label that is no class is told by PyTorch here, and not in the runner's words, and a
    loss that is no number is none that the runner's can be compared with."""
    try:
        with torch.random.fork_rng(), torch.no_grad(), tracing._training(network.model):
            own = tree_map_only(torch.Tensor, torch.clone, (network.parameters, network.buffers, inputs, targets))
            loss = float(tracing.compute_loss(network, *own, "fp32", "cpu"))
    except ExportError:
        raise
    except Exception as error:
        text = str(error).strip().split("\n")[0]
        raise ExportError(f"the network fails with the examples: {type(error).__name__}: {text}{source_line_of(error)}") from error
    if not math.isfinite(loss):
        raise ExportError(f"the loss of the examples is {loss}; give examples and values with which it is a finite number")


def _as_tuple(given) -> tuple:
    return (given,) if isinstance(given, torch.Tensor) else tuple(given)


def _as_arguments(given) -> tuple[tuple, dict]:
    return ((), dict(given)) if isinstance(given, Mapping) else (_as_tuple(given), {})


def _leaves(tree) -> list[torch.Tensor]:
    leaves: list[torch.Tensor] = []
    tree_map_only(torch.Tensor, leaves.append, tree)
    return leaves


def _check_examples(args: tuple, kwargs: dict, targets: tuple) -> None:
    tensors = [*args, *kwargs.values(), *targets]
    for tensor in tensors:
        if not isinstance(tensor, torch.Tensor):
            raise ExportError(f"examples are tensors, and one of them is of type {type(tensor).__name__}")
        if tensor.dim() == 0 or tensor.shape[0] != tensors[0].shape[0] or tensor.shape[0] == 0:
            raise ExportError(
                f"the first dimension of every example is the batch, and the examples have shapes"
                f" {', '.join(str(list(other.shape)) for other in tensors)}"
            )
    if not args and not kwargs:
        raise ExportError("there is no example input")


def _check_choices(batches: list[int], precisions: Iterable[str], devices: Iterable[str]) -> None:
    for size in batches:
        if not isinstance(size, int) or size < 1:
            raise ExportError(f"'batch' is a whole number above 0 or a list of them, not {size!r}")
    for given in (batches, precisions, devices):
        if not given or len(set(given)) != len(given):
            raise ExportError(f"a batch, precision or device is missing or given twice: {given}")
    for one in precisions:
        if one not in tracing.PRECISIONS:
            raise ExportError(f"there is no precision '{one}'; choose from {', '.join(tracing.PRECISIONS)}")
    for one in devices:
        if one not in tracing.DEVICES:
            raise ExportError(f"there is no device '{one}'; choose from {', '.join(tracing.DEVICES)}")
    if "cuda" in devices and not torch.cuda.is_available():
        raise ExportError("a graph for GPUs is traced on a machine with a GPU, and PyTorch finds none here")


def _check_samples(unit: str, units_per_sample: int, *ranges: tuple[int, int] | None) -> None:
    if not re.fullmatch("[a-z]{1,20}", unit):
        raise ExportError(f"'unit' is a word of up to 20 small letters, not {unit!r}")
    if not isinstance(units_per_sample, int) or units_per_sample < 1:
        raise ExportError(f"'units_per_sample' is a whole number above 0, not {units_per_sample!r}")
    for limits in ranges:
        if limits is not None and not limits[0] < limits[1]:
            raise ExportError(f"no number is from {limits[0]} to below {limits[1]}")


def _has_images(model: torch.nn.Module, args: tuple) -> bool:
    return any(t.dim() == 4 and t.is_floating_point() for t in args) and any(p.dim() == 4 for p in model.parameters())


def _laid_out(tensor: torch.Tensor, channels_last: bool) -> torch.Tensor:
    if tensor.dim() != 4 or not channels_last:
        return tensor.detach().contiguous()
    # contiguous() would keep the strides of a 1x1 image or kernel, by which kernels choose their layout.
    return torch.empty_like(tensor, memory_format=torch.channels_last).copy_(tensor.detach())


def _take_apart(model: torch.nn.Module, loss: Callable, channels_last: bool) -> tracing.Network:
    parameters, buffers = {}, {}
    for name, value in model.named_parameters():
        if value.requires_grad and value.dtype != torch.float32:
            raise ExportError(f"parameter {name} is {value.dtype}; parameters are fp32 (model.float()), and precision is an option")
        (parameters if value.requires_grad else buffers)[name] = _laid_out(value, channels_last)
    for name, value in model.named_buffers():
        buffers[name] = _laid_out(value, channels_last and value.is_floating_point())
    for name, value in buffers.items():
        samples.type_name(name, value)
    if not parameters:
        raise ExportError("the model has no parameter that requires a gradient")
    if any(value.device.type != "cpu" for value in [*parameters.values(), *buffers.values()]):
        raise ExportError("the model is on another device than the CPU; call model.cpu() first")
    return tracing.Network(model, loss, parameters, buffers)


def _batch_of(inputs) -> int:
    return _leaves(inputs)[0].shape[0]


def _sized(inputs, targets: tuple, batch: int):
    resize = lambda tensor: samples.at_batch(tensor, batch)  # noqa: E731
    return tree_map_only(torch.Tensor, resize, inputs), tuple(resize(target) for target in targets)


def _multiply_adds(network: tracing.Network, inputs, targets) -> int:
    """Multiply-adds of the forward pass of the batch."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True) as fake, FlopCounterMode(display=False) as counter, tracing._training(network.model):
        faked = tree_map_only(
            torch.Tensor, fake.from_tensor, (network.parameters, network.buffers, inputs, targets)
        )
        tracing.compute_loss(network, *faked, "fp32", "cpu")
    return counter.get_total_flops() // 2


def _values(network: tracing.Network, changed: list[str]) -> tuple[bytes, dict]:
    """The bytes of all tensors, one after the other as they lie in memory, and where each one is."""
    parts, position = [], 0
    layout: dict = {"parameters": [], "buffers": []}
    for kind, tensors in (("parameters", network.parameters), ("buffers", network.buffers)):
        for name, value in tensors.items():
            flat = torch.as_strided(value, (value.numel(),), (1,)).contiguous()
            entry = {
                "name": name,
                "shape": list(value.shape),
                "strides": list(value.stride()),
                "dtype": samples.type_name(name, value),
                "position": position,
            }
            if kind == "buffers":
                entry["changes"] = name in changed
            layout[kind].append(entry)
            parts.append(ctypes.string_at(flat.data_ptr(), flat.nbytes) if flat.numel() else b"")
            position += len(parts[-1])
            padding = -position % 64
            parts.append(bytes(padding))
            position += padding
    return b"".join(parts), layout


def _check_loss(path: Path, graph: dict, network: tracing.Network, inputs, targets) -> None:
    """Runs a graph as the program will and compares its loss with eager PyTorch's: the runner is young."""
    from torch._C._nativert import PyModelRunner

    device = graph["device"]
    move = lambda tree: tree_map_only(torch.Tensor, lambda tensor: tensor.to(device), tree)  # noqa: E731
    parameters, buffers, inputs, targets = move((network.parameters, network.buffers, inputs, targets))
    tensors = [*parameters.values(), *buffers.values(), *_leaves(inputs), *targets]
    with torch.random.fork_rng(), torch.no_grad(), tracing._training(network.model):
        losses = []
        try:
            with _without_warnings():
                runner = PyModelRunner(str(path), graph["name"])
                for _ in range(2):
                    torch.manual_seed(1)
                    copies = (tensor.detach().clone() for tensor in tensors)
                    losses.append(runner.run(*copies, torch.ones((), device=device))[0])
        except RuntimeError as error:
            text = str(error).strip().split("\n")[0]
            raise ExportError(f"LibTorch's runner of exported graphs cannot run this network: {text}") from error
        torch.manual_seed(1)
        # The step may write to all but the parameters.
        own = tree_map_only(torch.Tensor, torch.clone, (buffers, inputs, targets))
        expected = tracing.compute_loss(network, parameters, *own, graph["precision"], device)
    tolerance = 1e-4 if graph["precision"] == "fp32" else 2e-2
    for loss in losses:
        if not abs(float(loss) - float(expected)) <= tolerance * max(1.0, abs(float(expected))):
            raise ExportError(
                f"LibTorch's runner of exported graphs gives a loss of {float(loss):.6g} where PyTorch gives"
                f" {float(expected):.6g}: it does not support all operations of this network"
            )


@contextlib.contextmanager
def _without_warnings():
    """LibTorch's runner lists the operations that it has no shortcut for and prints stacks where it fails, and writes to
    the process's standard error."""
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _write(path: Path, programs: dict, metadata: dict, values: bytes, check: Callable) -> None:
    beside = path.with_name(f".{path.stem}.{os.getpid()}.pt2")
    try:
        with open(beside, "wb") as file, PT2ArchiveWriter(file) as archive:
            _package_exported_programs(archive, programs)
            digest = hashlib.sha256(values)
            digest.update(json.dumps(metadata, sort_keys=True, allow_nan=False).encode())
            for program in programs.values():
                digest.update(str(program.graph).encode())
            metadata["hash"] = digest.hexdigest()
            archive.write_bytes("extra/lockstep.values", values)
            archive.write_string("extra/lockstep.json", json.dumps(metadata, indent=1, allow_nan=False))
        check(beside)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
