"""Networks by name, for `python -m lockstep export`: torchvision's, timm's and transformers', with random values."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from lockstep.refusals import ExportError


@dataclass
class Named:
    """The arguments of export()."""

    model: torch.nn.Module
    loss: Callable
    inputs: object
    targets: torch.Tensor
    options: dict


def build(name: str, batch: int, image_size: int | None, classes: int, sequence: int) -> Named:
    """`name`: SOURCE:NETWORK, as "torchvision:vit_b_16". Downloads nothing."""
    source, _, network = name.partition(":")
    makers = {"torchvision": _torchvision, "timm": _timm, "transformers": _transformers}
    if source not in makers or not network:
        raise ExportError(f"'{name}' is not SOURCE:NETWORK with one of the sources {', '.join(makers)}")
    torch.manual_seed(1)
    try:
        if source == "transformers":
            return _transformers(network, batch, sequence)
        return makers[source](network, batch, image_size, classes)
    except (AssertionError, ValueError) as error:
        raise ExportError(f"{source} cannot build '{network}' of these sizes: {error}") from error


def _import(name: str):
    try:
        return __import__(name)
    except ImportError as error:
        raise ExportError(f"{name} is not installed here: {error}") from error


def _images(model, loss, batch: int, size: int, classes: int) -> Named:
    images = torch.randn(batch, 3, size, size)
    labels = torch.randint(classes, (batch,))
    return Named(model, loss, images, labels, {"unit": "image", "target_range": (0, classes)})


def classification_loss(output, labels: torch.Tensor) -> torch.Tensor:
    """Cross entropy; of networks with auxiliary classifiers as torchvision's references weigh them."""
    entropy = torch.nn.functional.cross_entropy
    if isinstance(output, torch.Tensor):
        return entropy(output, labels)
    if hasattr(output, "aux_logits1") or hasattr(output, "aux_logits2"):
        auxiliary = [logits for logits in (output.aux_logits1, output.aux_logits2) if logits is not None]
        return entropy(output.logits, labels) + 0.3 * sum(entropy(logits, labels) for logits in auxiliary)
    if hasattr(output, "aux_logits"):
        return entropy(output.logits, labels) + 0.4 * entropy(output.aux_logits, labels)
    raise ExportError(f"the network gives a {type(output).__name__}, which is no classification")


def _torchvision(network: str, batch: int, size: int | None, classes: int) -> Named:
    models = _import("torchvision").models
    if network not in models.list_models(models):
        raise ExportError(f"torchvision has no classification network '{network}'")
    size = size or (299 if network == "inception_v3" else 224)
    options = {"image_size": size} if network.startswith("vit_") else {}
    model = models.get_model(network, weights=None, num_classes=classes, **options)
    return _images(model, classification_loss, batch, size, classes)


def _timm(network: str, batch: int, size: int | None, classes: int) -> Named:
    timm = _import("timm")
    if network not in timm.list_models():
        raise ExportError(f"timm has no network '{network}'")
    model = timm.create_model(network, pretrained=False, num_classes=classes)
    size = size or model.default_cfg["input_size"][-1]
    return _images(model, classification_loss, batch, size, classes)


def _transformers(network: str, batch: int, sequence: int) -> Named:
    transformers = _import("transformers")
    try:
        config = transformers.AutoConfig.for_model(network, use_cache=False)
        model = transformers.AutoModelForCausalLM.from_config(config)
    except ValueError as error:
        raise ExportError(f"transformers has no causal language model '{network}'") from error
    words = config.vocab_size
    tokens = torch.randint(words, (batch, sequence))

    def loss(output, following):
        return torch.nn.functional.cross_entropy(output.logits.flatten(0, 1), following.flatten())

    options = {"unit": "token", "units_per_sample": sequence, "input_range": (0, words), "target_range": (0, words)}
    return Named(model, loss, {"input_ids": tokens}, torch.roll(tokens, -1, 1), options)
