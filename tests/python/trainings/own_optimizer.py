"""An optimizer that derives from torch.optim.Optimizer, the same compiled, or one that does not derive from it and calls
lockstep.step(): python own_optimizer.py [compiled | foreign]"""

import sys

import torch


class Sign(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.01})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter -= group["lr"] * parameter.grad.sign()


class Foreign:
    def __init__(self, parameters):
        self.parameters = list(parameters)

    def zero_grad(self):
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self):
        for parameter in self.parameters:
            parameter -= 0.01 * parameter.grad


foreign = sys.argv[1:] == ["foreign"]
model = torch.nn.Linear(64, 64)
optimizer = Foreign(model.parameters()) if foreign else Sign(model.parameters())
update = torch.compile(optimizer.step, backend="eager") if sys.argv[1:] == ["compiled"] else optimizer.step
if foreign:
    import lockstep
for _ in range(80):
    optimizer.zero_grad()
    model(torch.randn(8, 64)).square().mean().backward()
    update()
    if foreign:
        lockstep.step()
print("trained 80 steps")
