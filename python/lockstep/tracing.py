"""Traces a training step, forward and backward, into one graph."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch._export.passes.lift_constants_pass import ConstantAttrMap, lift_constants_pass
from torch._export.verifier import TrainingIRVerifier
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_map_only

from lockstep import operators
from lockstep.refusals import ExportError, explain

PRECISIONS = {"fp32": None, "bf16": torch.bfloat16}
DEVICES = ("cpu", "cuda")


@dataclass
class Network:
    """A network taken apart. Nothing of the user's model is changed."""

    model: torch.nn.Module
    loss: Callable
    parameters: dict[str, torch.Tensor]
    """Values to start with, fp32, dense, in the order in which the model registers them."""
    buffers: dict[str, torch.Tensor]
    """Likewise, with parameters that do not require a gradient."""


@dataclass
class Step:
    """A traced step. Inputs of `program`: parameters, buffers, inputs, targets, and the factor of the loss in the
    backward pass. Outputs: the loss, the gradients, and those buffers that change."""

    program: torch.export.ExportedProgram
    changed: list[str]
    activation_bytes: int
    """Bytes that the forward pass keeps for the backward pass."""


def compute_loss(network: Network, parameters, buffers, inputs, targets, precision: str, device: str) -> torch.Tensor:
    """The loss with these tensors in the model's places."""
    dtype = PRECISIONS[precision]
    with torch.autocast(device, dtype, enabled=dtype is not None):
        args, kwargs = inputs
        output = torch.func.functional_call(network.model, {**parameters, **buffers}, args, kwargs)
        loss = network.loss(output, *targets)
    if not isinstance(loss, torch.Tensor):
        raise ExportError(f"the loss is of type {type(loss).__name__}; a tensor with one number is wanted")
    if loss.numel() != 1 or not loss.is_floating_point():
        raise ExportError(
            f"the loss is a tensor of shape {list(loss.shape)} and type {loss.dtype}; one floating-point number is wanted"
        )
    return loss.reshape(())


def trace(network: Network, inputs, targets: tuple, precision: str, device: str) -> Step:
    """`inputs`: (args, kwargs) of the model. The shapes of inputs and targets become part of the graph, and so does the
    device, but not which GPU it is. Tensors have no memory while it is traced."""
    names, buffer_names = list(network.parameters), list(network.buffers)
    leaves: list[torch.Tensor] = []
    tree_map_only(torch.Tensor, leaves.append, inputs)
    # Of buffers, inputs and targets.
    written: list[bool] = []

    def run(*tensors):
        parameters = {name: value.detach().requires_grad_() for name, value in zip(names, tensors)}
        scale = tensors[-1]
        # What the step writes to is its own.
        copies = [value.clone() for value in tensors[len(names) : -1]]
        buffers = dict(zip(buffer_names, copies))
        given = iter(copies[len(buffers) :])
        own_inputs = tree_map_only(torch.Tensor, lambda _: next(given), inputs)
        own_targets = list(given)
        for index, parameter in enumerate(parameters.values()):
            parameter.register_hook(lambda gradient, index=index: operators.grad_ready(gradient, index))
        loss = compute_loss(network, parameters, buffers, own_inputs, own_targets, precision, device)
        shown = operators.forward_done(loss.detach().to(torch.float32))
        gradients = torch.autograd.grad(
            loss, list(parameters.values()), grad_outputs=scale.to(loss.dtype), allow_unused=True
        )
        _check(parameters, gradients)
        written[:] = [copy._version > 0 for copy in copies]
        return [shown, *gradients, *buffers.values()]

    flat = [*network.parameters.values(), *network.buffers.values(), *leaves, *targets, torch.ones(())]
    flat = [value.detach() for value in flat]
    # Of a loss or a model, tensors that are neither parameters nor buffers are not fake.
    with FakeTensorMode(allow_non_fake_inputs=True) as fake:
        flat = [fake.from_tensor(value).to(device) for value in flat]
    try:
        # oneDNN's recurrent layers give gradients that the graph's runner refuses; all else is chosen when it runs.
        with _training(network.model), _without_onednn():
            module = make_fx(run, tracing_mode="fake")(*flat)
        graph = module.graph
        changed = _keep_changed(graph, len(names), dict(zip(buffer_names, written)))
        _drop_copies(graph, len(names), [name in changed for name in buffer_names] + written[len(buffer_names) :])
        graph.eliminate_dead_code()
        _own_gradients(graph)
        if device == "cpu":
            _multiply_by_tensors(graph)
        _announce_uses(graph, names)
        _leave_open_which_gpu(graph)
        program = _program_of(module)
    except ExportError:
        raise
    except Exception as error:
        raise explain(error) from error
    for node in program.graph.nodes:
        # Half of the file otherwise, with folders of the machine that traced.
        for key in ("stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn", "from_node"):
            node.meta.pop(key, None)
    return Step(program, changed, _kept_bytes(graph))


def _keep_changed(graph: torch.fx.Graph, parameters: int, written: dict[str, bool]) -> list[str]:
    """Removes the buffers that the step only reads from the results, and names the others."""
    output = graph.output_node()
    results = output.args[0]
    first = 1 + parameters
    # Batch normalization updates its statistics without telling that it writes them.
    normalized = {node for user in graph.nodes if "batch_norm" in str(user.target) for node in user.all_input_nodes}
    changed = [name for name, node in zip(written, results[first:]) if written[name] or node in normalized]
    kept = [node for name, node in zip(written, results[first:]) if name in changed]
    output.args = ([*results[:first], *kept],)
    return changed


def _drop_copies(graph: torch.fx.Graph, parameters: int, written: list[bool]) -> None:
    """Removes the copies of what the step does not write to; `written` is of the inputs behind the parameters."""
    inputs = graph.find_nodes(op="placeholder")[parameters:-1]
    for node in [node for node, kept in zip(inputs, written, strict=True) if not kept]:
        for copy in list(node.users):
            copy.replace_all_uses_with(node)
            graph.erase_node(copy)


def _own_gradients(graph: torch.fx.Graph) -> None:
    """Copies the gradients whose memory the step uses again: the program keeps a gradient without a copy, and adds to it
    or combines it with those of other ranks while the backward pass goes on. So it is with a sum of two parameters of
    one shape, which have one gradient, and with a parameter of the shape of what it is added to."""
    sharing: dict[int, list[torch.fx.Node]] = {}
    for node in graph.nodes:
        if (storage := _storage(node)) is not None:
            sharing.setdefault(storage._cdata, []).append(node)
    announced = graph.find_nodes(op="call_function", target=torch.ops.lockstep.grad_ready.default)

    def used_again(ready: torch.fx.Node) -> bool:
        nodes = sharing[_storage(ready.args[0])._cdata]
        users = {user for node in nodes for user in node.users} - {ready}
        later = any(user > ready or user in announced for user in users)
        return later or any(node.op == "placeholder" for node in nodes)

    for ready in [node for node in announced if used_again(node)]:
        with graph.inserting_before(ready):
            copy = graph.call_function(torch.ops.aten.clone.default, (ready.args[0],))
        copy.meta["val"] = ready.meta["val"]
        ready.args = (copy, ready.args[1])


def _multiply_by_tensors(graph: torch.fx.Graph) -> None:
    """Turns numbers that tensors are multiplied by into tensors without dimensions, with the same values. For a view with
    gaps times a number, NativeRT's operations for CPUs (torch 2.11) make a result of the view's strides in memory for its
    elements alone, and write behind the end of it."""
    aten = torch.ops.aten
    for node in graph.nodes:
        if node.target not in (aten.mul.Tensor, aten.mul.Scalar) or not isinstance(node.args[1], (int, float)):
            continue
        multiplied = node.args[0].meta["val"]
        dtype = torch.float64 if isinstance(node.args[1], float) else torch.int64
        if multiplied.dim() == 0 or not multiplied.is_floating_point():
            # Two tensors without dimensions would give the wider type, and whole numbers the factor's.
            dtype = node.meta["val"].dtype
        with graph.inserting_before(node):
            factor = graph.call_function(
                aten.full.default, ([], node.args[1]), {"dtype": dtype, "device": torch.device("cpu")}
            )
        with multiplied.fake_mode:
            factor.meta["val"] = torch.full([], node.args[1], dtype=dtype)
        node.target, node.args = aten.mul.Tensor, (node.args[0], factor)


def _announce_uses(graph: torch.fx.Graph, names: list[str]) -> None:
    """Puts a marker before each operation that uses memory of a parameter, unless the last such operation used the same
    layer: the program may keep a part of each parameter, and gather those of a layer when they are about to be used."""
    layers = {
        _storage(node)._cdata: name.rpartition(".")[0] or name
        for name, node in zip(names, graph.find_nodes(op="placeholder"))
    }

    def layer_of(node: torch.fx.Node) -> str | None:
        storage = _storage(node)
        return None if storage is None else layers.get(storage._cdata)

    last: set[str] = set()
    for node in list(graph.nodes):
        used = [given for given in node.all_input_nodes if layer_of(given) is not None]
        makes_view = layer_of(node) is not None
        if node.op != "call_function" or makes_view or not used:
            continue
        now = {layer_of(given) for given in used}
        if now == last and len(now) == 1:
            continue
        last = now
        with graph.inserting_before(node):
            marked = graph.call_function(torch.ops.lockstep.uses.default, (used[0], used[1:]))
        # The program passes on the same memory.
        marked.meta["val"] = used[0].meta["val"]
        node.replace_input_with(used[0], marked)


def _leave_open_which_gpu(graph: torch.fx.Graph) -> None:
    """Every rank runs the graph on a GPU of its own, so tensors that it makes are on the current one."""
    for node in graph.nodes:
        if isinstance(node.kwargs.get("device"), torch.device):
            node.kwargs = {**node.kwargs, "device": torch.device(node.kwargs["device"].type)}


def _program_of(module: torch.fx.GraphModule) -> ExportedProgram:
    """The graph as torch.export would give it, which would trace it once more: twice the time."""
    for node in module.graph.find_nodes(op="get_attr"):
        # lift_constants_pass takes it away.
        node.meta.setdefault("nn_module_stack", {})
    inputs = module.graph.find_nodes(op="placeholder")
    results = list(module.graph.output_node().args[0])
    signature = ExportGraphSignature(
        [InputSpec(InputKind.USER_INPUT, TensorArgument(node.name), None) for node in inputs],
        [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(node.name), None) for node in results],
    )
    constants = lift_constants_pass(module, signature, ConstantAttrMap())
    shapes = [tree_flatten(tree)[1] for tree in ((tuple(inputs), {}), results)]
    call = ModuleCallEntry("", ModuleCallSignature([], [], *shapes))
    return ExportedProgram(
        module, module.graph, signature, {}, {}, [call], constants=constants, verifiers=[TrainingIRVerifier]
    )


def _check(parameters: dict, gradients) -> None:
    unused = [name for name, gradient in zip(parameters, gradients) if gradient is None]
    if unused:
        raise ExportError(
            f"the loss does not depend on {_some(unused)}. Remove them from the model, or set requires_grad to False"
        )
    touched = [name for name, value in parameters.items() if value._version > 0]
    if touched:
        raise ExportError(
            f"the step changes {_some(touched)} in place. Leave changes of parameters to the optimizer"
        )


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more parameters" if len(names) > 3 else f"parameter {shown}"


@contextlib.contextmanager
def _training(model: torch.nn.Module):
    """The model in training mode, for a while."""
    modes = {module: module.training for module in model.modules()}
    model.train()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


@contextlib.contextmanager
def _without_onednn():
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


def _storage(node: torch.fx.Node) -> torch.UntypedStorage | None:
    """The memory of a node's result, which views of it share; None where it is not one tensor."""
    value = node.meta.get("val")
    return value.untyped_storage() if isinstance(value, torch.Tensor) else None


def _kept_bytes(graph: torch.fx.Graph) -> int:
    """Bytes of the tensors that are computed before the loss and used after it; views count once."""
    (loss,) = graph.find_nodes(op="call_function", target=torch.ops.lockstep.forward_done.default)
    given, kept = set(), {}
    for node in graph.nodes:
        storage = _storage(node)
        if storage is None:
            continue
        if node.op == "placeholder":
            given.add(storage._cdata)
        elif node < loss and any(user > loss and user.op != "output" for user in node.users):
            kept[storage._cdata] = storage.nbytes()
    return sum(size for key, size in kept.items() if key not in given)
