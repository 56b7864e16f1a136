"""The networks that make_references.py compares with: torchvision's, and in torch.nn those that it does not have."""

import torch
import torchvision
from torch import nn
from torch.nn import functional

AUXILIARY_WEIGHT = {"googlenet_aux": 0.3, "inception_v3_aux": 0.4}
IMAGE_SIZE = {"alexnet_caffe": 227, "inception_v3": 299, "inception_v3_aux": 299, "resnet20": 32, "resnet56": 32}


class LocalResponseNorm(nn.Module):
    """torch.nn.LocalResponseNorm(5, 5e-4, 0.75, 2) by another way, which keeps less for the backward pass."""

    def forward(self, x):
        squares = functional.pad(x * x, (0, 0, 0, 0, 2, 2))
        base = sum(squares[:, shift : shift + x.shape[1]] for shift in range(5)) * 1e-4 + 2
        return x / base.pow(0.75)


class AlexNetCaffe(nn.Module):
    """As Theano-MPI has it."""

    def __init__(self, dropout=0.5, own_norm=False):
        super().__init__()
        self.norm = LocalResponseNorm() if own_norm else nn.LocalResponseNorm(5, 5e-4, 0.75, 2)
        self.conv1 = nn.Conv2d(3, 96, 11, stride=4)
        self.conv2 = nn.Conv2d(96, 256, 5, padding=2, groups=2)
        self.conv3 = nn.Conv2d(256, 384, 3, padding=1)
        self.conv4 = nn.Conv2d(384, 384, 3, padding=1, groups=2)
        self.conv5 = nn.Conv2d(384, 256, 3, padding=1, groups=2)
        self.fc6 = nn.Linear(256 * 6 * 6, 4096)
        self.fc7 = nn.Linear(4096, 4096)
        self.fc8 = nn.Linear(4096, 1000)
        self.relu = nn.ReLU(inplace=True)
        self.pool = nn.MaxPool2d(3, 2)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = self.norm(self.pool(self.relu(self.conv1(x))))
        x = self.norm(self.pool(self.relu(self.conv2(x))))
        for convolution in (self.conv3, self.conv4, self.conv5):
            x = self.relu(convolution(x))
        x = torch.flatten(self.pool(x), 1)
        for linear in (self.fc6, self.fc7):
            x = self.dropout(self.relu(linear(x)))
        return self.fc8(x)


class CifarBlock(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.stride = out_channels // in_channels
        self.padding = (out_channels - in_channels) // 2
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, self.stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out_channels)

    def forward(self, x):
        y = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        # Every stride-th pixel is what averaging over single pixels takes.
        shortcut = x[:, :, :: self.stride, :: self.stride] if self.stride > 1 else x
        y += functional.pad(shortcut, (0, 0, 0, 0, self.padding, self.padding))
        return functional.relu(y, inplace=True)


class CifarResNet(nn.Module):
    """He et al. 2015, section 4.2, option A."""

    def __init__(self, blocks_per_stage):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = self.stage(16, 16, blocks_per_stage)
        self.layer2 = self.stage(16, 32, blocks_per_stage)
        self.layer3 = self.stage(32, 64, blocks_per_stage)
        self.fc = nn.Linear(64, 10)

    @staticmethod
    def stage(in_channels, out_channels, blocks):
        rest = [CifarBlock(out_channels, out_channels) for _ in range(blocks - 1)]
        return nn.Sequential(CifarBlock(in_channels, out_channels), *rest)

    def forward(self, x):
        x = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(x.mean((2, 3)))


def build(name, dropout=True):
    """In training mode. `dropout` off: every dropout's probability is 0."""
    if name == "alexnet_caffe":
        # What is kept depends on how the norm is computed; what comes out does not.
        model = AlexNetCaffe(own_norm=dropout)
    elif name in ("resnet20", "resnet56"):
        model = CifarResNet({"resnet20": 3, "resnet56": 9}[name])
    elif name.startswith(("googlenet", "inception")):
        auxiliary = name in AUXILIARY_WEIGHT
        # Drawing truncated normals takes long, and the values are overwritten.
        build_model = getattr(torchvision.models, name.removesuffix("_aux"))
        model = build_model(weights=None, aux_logits=auxiliary, init_weights=False)
    else:
        model = getattr(torchvision.models, name)(weights=None)
    if not dropout:
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
    return model.train()


def logits_and_loss(name, model, images, labels):
    """The logits of the last classifier, and the loss with those before it."""
    output = model(images)
    if name not in AUXILIARY_WEIGHT:
        return output, functional.cross_entropy(output, labels)
    auxiliary = [value for key, value in output._asdict().items() if key.startswith("aux")]
    loss = functional.cross_entropy(output.logits, labels)
    for logits in auxiliary:
        loss = loss + AUXILIARY_WEIGHT[name] * functional.cross_entropy(logits, labels)
    return output.logits, loss
