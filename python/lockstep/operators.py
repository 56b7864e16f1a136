"""Three operators that mark places in a traced step. lockstep's program defines its own versions, which act on them."""

import torch


@torch.library.custom_op("lockstep::forward_done", mutates_args=())
def forward_done(loss: torch.Tensor) -> torch.Tensor:
    """Passes the loss on; behind it the backward pass begins."""
    return loss.clone()


@forward_done.register_fake
def _(loss):
    return torch.empty_like(loss)


@torch.library.custom_op("lockstep::grad_ready", mutates_args=())
def grad_ready(gradient: torch.Tensor, index: int) -> torch.Tensor:
    """Passes on the gradient of parameter `index`, which is final: it can travel while backward goes on."""
    return gradient.clone()


@grad_ready.register_fake
def _(gradient, index):
    return torch.empty_like(gradient)


@torch.library.custom_op("lockstep::uses", mutates_args=())
def uses(parameter: torch.Tensor, others: list[torch.Tensor]) -> torch.Tensor:
    """Passes a parameter on to an operation that is about to use it, with the others that this one uses."""
    return parameter.clone()


@uses.register_fake
def _(parameter, others):
    return torch.empty_like(parameter)
